package checks

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func TestDatabaseProblems(t *testing.T) {
	wantProblems(t, &PostgresOptions{User: "atm", Database: "atm", TLS: true, CAFile: "c", ServerName: "db.example"})
	wantProblems(t, &PostgresOptions{ServerName: "db.example", User: strings.Repeat("x", 64), Database: "a\x00b"},
		"server_name: has no effect without tls: true", `user: "x`, `database: "a\x00b" is not a name`)
	wantProblems(t, &PostgresOptions{TLS: true, CertFile: "c"}, "key_file: is missing")
	wantProblems(t, &MySQLOptions{CAFile: "c", User: "a\x00b"}, "ca_file: has no effect without tls: true", `user: "a\x00b" is not a name`)
	wantProblems(t, &MySQLOptions{TLS: true, SkipVerify: true, CAFile: "c"}, "ca_file: has no effect with skip_verify")
}

// pg is a message of a PostgreSQL server.
func pg(kind string, fields ...string) string {
	body := strings.Join(fields, "")
	return kind + string(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))) + body
}

// pgErr is an ErrorResponse.
func pgErr(code, text string) string {
	return pg("E", "SFATAL\x00VFATAL\x00C"+code+"\x00M"+text+"\x00\x00")
}

func TestPostgresAnswers(t *testing.T) {
	plain, named := &PostgresOptions{}, &PostgresOptions{User: "atm"}
	request := pg("R", "\x00\x00\x00\x0a", "SCRAM-SHA-256\x00\x00")
	tests := []struct {
		name  string
		opts  *PostgresOptions
		limit time.Duration
		parts []string
		want  outcome
	}{
		{"login asked for", plain, probeLimit, []string{request}, outcome{true, CauseNone, "the server accepts connections"}},
		{"after notices, in parts", plain, probeLimit, []string{pg("N", "x\x00"), pg("v", "\x00\x00\x00\x00\x00\x00\x00\x00"), request[:3], request[3:]},
			outcome{true, CauseNone, "the server accepts connections"}},
		{"starting up", plain, probeLimit, []string{pgErr("57P03", "the database system is starting up")},
			outcome{false, CauseAnswer, "the server does not accept connections now: the database system is starting up (57P03)"}},
		{"full", plain, probeLimit, []string{pgErr("53300", "sorry, too many clients already")},
			outcome{false, CauseAnswer, "the server has too many connections: sorry, too many clients already (53300)"}},
		{"login refused, no user set", plain, probeLimit, []string{pgErr("28000", `role "rhid" does not exist`)},
			outcome{true, CauseNone, `the server accepts connections, and refused this login: role "rhid" does not exist (28000)`}},
		{"login refused, user set", named, probeLimit, []string{pgErr("28000", `role "atm" does not exist`)},
			outcome{false, CauseAnswer, `the server refused: role "atm" does not exist (28000)`}},
		{"an error in no words", plain, probeLimit, []string{pg("E", "X")}, outcome{false, CauseAnswer, "the server refused: no message (no code)"}},
		{"an error with control characters", plain, probeLimit, []string{pgErr("\x1b[31m", "a\x1bb\nc")}, outcome{false, CauseAnswer, `the server refused: a b ("\x1b[31m")`}},
		{"only notices", plain, probeLimit, []string{strings.Repeat(pg("N", "\x00"), pgMaxNotices)}, outcome{false, CauseAnswer, "more than 8 messages before the server asked for a login"}},
		{"another protocol", plain, probeLimit, []string{"HTTP/1.1 400"}, outcome{false, CauseAnswer, `the target does not speak PostgreSQL: answered "HTTP/1.1 400"`}},
		{"an endless message", plain, probeLimit, []string{"R\x7f\xff\xff\xff"}, outcome{false, CauseAnswer, `the target does not speak PostgreSQL: answered "R\x7f\xff\xff\xff"`}},
		{"part of a message", plain, partLimit, []string{request[:9]}, outcome{false, CauseAnswer, "only 9 bytes of a PostgreSQL answer within 1s"}},
		{"no TLS", &PostgresOptions{TLS: true}, probeLimit, []string{"N"}, outcome{false, CauseTLS, "the server does not offer TLS"}},
		{"an error for TLS", &PostgresOptions{TLS: true}, probeLimit, []string{pgErr("53300", "x")}, outcome{false, CauseAnswer, "the server answered the request for TLS with an error: it cannot serve connections now"}},
		{"nonsense for TLS", &PostgresOptions{TLS: true}, probeLimit, []string{"220 mail"}, outcome{false, CauseAnswer, `the target does not speak PostgreSQL: answered "2" to a request for TLS`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			to := targetOf(serve(t, "127.0.0.1:0", holds(tt.parts...)), tt.limit)
			wantOutcome(t, probeOnce(t, tt.opts, to), tt.want)
		})
	}
}

// myGreeting is the first packet of a MySQL server.
func myGreeting(capabilities uint16) string {
	body := "\x0a10.11.6-MariaDB\x00" + "\x01\x00\x00\x00" + "12345678" + "\x00" + string(binary.LittleEndian.AppendUint16(nil, capabilities)) + "\x2d\x02\x00"
	return string(myPacket(0, []byte(body)))
}

// myErrPacket is an ERR packet.
func myErrPacket(sequence byte, code uint16, text string) string {
	return string(myPacket(sequence, append(binary.LittleEndian.AppendUint16([]byte{myErr}, code), text...)))
}

func TestMySQLAnswers(t *testing.T) {
	plain, named := &MySQLOptions{}, &MySQLOptions{User: "atm"}
	greeting, again := myGreeting(0xf7fe), string(myPacket(2, []byte{mySwitch}))
	tests := []struct {
		name  string
		opts  *MySQLOptions
		limit time.Duration
		parts []string // one after each packet of the probe
		want  outcome
	}{
		{"login taken", plain, probeLimit, []string{greeting, string(myPacket(2, []byte{myOK, 0, 0, 2, 0}))}, outcome{true, CauseNone, "the server accepts connections"}},
		{"login refused, no user set", plain, probeLimit, []string{greeting, myErrPacket(2, 1045, "#28000Access denied for user 'rhid'")},
			outcome{true, CauseNone, "the server accepts connections, and refused this login: Access denied for user 'rhid' (1045)"}},
		{"login refused, user set", named, probeLimit, []string{greeting, myErrPacket(2, 1045, "#28000Access denied for user 'atm'")},
			outcome{false, CauseAnswer, "the server refused: Access denied for user 'atm' (1045)"}},
		{"another way to log in", plain, probeLimit, []string{greeting, again, myErrPacket(4, 1045, "#28000No")},
			outcome{true, CauseNone, "the server accepts connections, and refused this login: No (1045)"}},
		{"another way again and again", plain, probeLimit, []string{greeting, again, again, again, again}, outcome{false, CauseAnswer, "the server asks more than 4 times during the login"}},
		{"full", plain, probeLimit, []string{myErrPacket(0, 1040, "Too many connections")}, outcome{false, CauseAnswer, "the server does not accept connections: Too many connections (1040)"}},
		{"full at the login", plain, probeLimit, []string{greeting, myErrPacket(2, 1040, "#08004Too many connections")}, outcome{false, CauseAnswer, "the server refused: Too many connections (1040)"}},
		{"an error in no words", plain, probeLimit, []string{string(myPacket(0, []byte{myErr}))}, outcome{false, CauseAnswer, "the server does not accept connections: no message (0)"}},
		{"a greeting that breaks off", plain, probeLimit, []string{string(myPacket(0, []byte("\x0a10.11\x00abc")))}, outcome{false, CauseAnswer, "the target does not speak MySQL: its greeting breaks off after 10 bytes"}},
		{"another version", plain, probeLimit, []string{string(myPacket(0, []byte("\x09old")))}, outcome{false, CauseAnswer, `the target does not speak MySQL: its greeting begins with "\told"`}},
		{"another protocol", plain, probeLimit, []string{"SSH-2.0-OpenSSH_9.2\r\n"}, outcome{false, CauseAnswer, `the target does not speak MySQL: answered "SSH-2.0-OpenSSH_9.2\r\n"`}},
		{"part of a greeting", plain, partLimit, []string{greeting[:9]}, outcome{false, CauseAnswer, "only 9 bytes of a MySQL greeting within 1s"}},
		{"nonsense after the greeting", plain, probeLimit, []string{greeting, string(myPacket(2, []byte("what")))}, outcome{false, CauseAnswer, `the server answered the login with "what"`}},
		{"no TLS", &MySQLOptions{TLS: true}, probeLimit, []string{myGreeting(0xf7fe &^ mySSL)}, outcome{false, CauseTLS, "the server does not offer TLS"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			to := targetOf(serve(t, "127.0.0.1:0", func(c net.Conn) {
				var buf [1024]byte
				for _, p := range tt.parts {
					_, _ = io.WriteString(c, p)
					if _, err := c.Read(buf[:]); err != nil {
						return // the probe has seen enough
					}
				}
				_, _ = io.Copy(io.Discard, c)
			}), tt.limit)
			wantOutcome(t, probeOnce(t, tt.opts, to), tt.want)
		})
	}
}

// The first message of PostgreSQL and of MySQL, byte by byte.
func TestDatabaseRequests(t *testing.T) {
	want := "\x00\x00\x00\x3b\x00\x03\x00\x00user\x00rhid\x00database\x00postgres\x00application_name\x00rhid\x00\x00"
	if got := string(pgStartup("rhid", "postgres")); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	want = "\x20\x00\x00\x01\x01\x0a\x00\x00\xff\xff\xff\x00\x2d" + strings.Repeat("\x00", 23)
	if got := string(myPacket(1, myLogin(myLongPassword|myProtocol41|mySSL))); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// FuzzPostgres gives any bytes to a probe as the answer of a server.
func FuzzPostgres(f *testing.F) {
	for _, s := range []string{pg("R", "\x00\x00\x00\x00"), pgErr("57P03", "starting"), pg("N", "\x00") + pgErr("28000", "no"), pg("E", "C\x00M\x00"), "E\x00\x00\x00\x04", "R\xff\xff\xff\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &pgProbe{}
		for len(data) > 0 {
			kind, body, used, fail := pgMessage(data)
			if fail != nil || used == 0 {
				return
			}
			if used > len(data) || len(body) >= pgMessageLimit {
				t.Fatalf("%d bytes used of %d, body of %d", used, len(data), len(body))
			}
			if res, done := p.judge(kind, body); done && (res.OK != (res.Cause == CauseNone) || res.Detail == "") {
				t.Fatalf("%+v", res)
			}
			data = data[used:]
		}
	})
}

// FuzzMySQL gives any bytes to a probe as the answer of a server.
func FuzzMySQL(f *testing.F) {
	for _, s := range []string{myGreeting(0xffff), myErrPacket(0, 1040, "full"), string(myPacket(2, []byte{myOK})), myErrPacket(2, 1045, "#28000no"), "\x01\x00\x00\x00\xff", "\x02\x00\x00\x00\x0a\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &myProbe{}
		for len(data) > 0 {
			body, used, fail := myBody(data)
			if fail != nil || used == 0 {
				return
			}
			if used > len(data) || len(body) > myPacketLimit {
				t.Fatalf("%d bytes used of %d, body of %d", used, len(data), len(body))
			}
			if _, fail := p.judgeGreeting(body); fail != nil && fail.detail == "" {
				t.Fatalf("%+v", fail)
			}
			if res, more := p.judgeLogin(body); !more && (res.OK != (res.Cause == CauseNone) || res.Detail == "") {
				t.Fatalf("%+v", res)
			}
			data = data[used:]
		}
	})
}
