package checks

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

func TestReadReply(t *testing.T) {
	tests := []struct {
		in   string
		code int
		text string
		err  error
	}{
		{"220 ready\r\n", 220, "ready", nil},
		{"220\r\n", 220, "", nil},
		{"250-a\r\n250-b\r\n250 c\r\n", 250, "a\nb\nc", nil},
		{"230-welcome\r\n 220 hosts\r\n120 is no end\r\n230-more\r\n230 in\r\n", 230, "welcome\n 220 hosts\n120 is no end\nmore\nin", nil},
		{"", 0, "", io.EOF},
		{"220 rea", 0, "", io.ErrUnexpectedEOF},
		{"220-a\r\n", 0, "", io.ErrUnexpectedEOF},
		{"SSH-2.0-x\r\n", 0, "", malformedReply("SSH-2.0-x")},
		{"2200 x\r\n", 0, "", malformedReply("2200 x")},
		{"+20 x\r\n", 0, "", malformedReply("+20 x")},
		{"099 x\r\n", 0, "", malformedReply("099 x")},
	}
	for _, tt := range tests {
		code, text, err := readReply(bufio.NewReader(strings.NewReader(tt.in)))
		if code != tt.code || text != tt.text || !errors.Is(err, tt.err) {
			t.Errorf("%q: %d %q %v, want %d %q %v", tt.in, code, text, err, tt.code, tt.text, tt.err)
		}
	}
}

func FuzzReadReply(f *testing.F) {
	f.Add([]byte("220 mail.example ESMTP\r\n"))
	f.Add([]byte("250-a\r\n250-STARTTLS\r\n250 OK\r\n"))
	f.Add([]byte("230-\r\n x\n230 \n"))
	f.Add([]byte("SSH-2.0\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		code, text, err := readReply(bufio.NewReader(&io.LimitedReader{R: strings.NewReader(string(b)), N: repliesLimit}))
		if err == nil && (code < 100 || code > 599 || len(text) > len(b) || len(text) > repliesLimit) || err != nil && text != "" {
			t.Errorf("%q: %d %q %v", b, code, text, err)
		}
	})
}

func TestPassivePorts(t *testing.T) {
	for text, want := range map[string]uint16{
		"Entering Extended Passive Mode (|||6446|)": 6446,
		"(!!!1!)":                         1,
		"Entering Passive Mode (|||6446)": 0,
		"(|||0|)":                         0,
		"(|||65536|)":                     0,
		"(||x6446|)":                      0,
		"(":                               0,
	} {
		if got, ok := parseEPSV(text); ok != (want > 0) || ok && got != want {
			t.Errorf("EPSV %q: %d %t, want %d", text, got, ok, want)
		}
	}
	for text, want := range map[string]uint16{
		"Entering Passive Mode (10,0,0,1,25,46).": 25<<8 | 46,
		"=10,0,0,1,0,21":   21,
		"(10,0,0,1,256,1)": 0,
		"(10,0,0,1,25)":    0,
		"(,,,,,)":          0,
		"(10,0,0,1,0,0)":   0,
	} {
		if got, ok := parsePASV(text); ok != (want > 0) || ok && got != want {
			t.Errorf("PASV %q: %d %t, want %d", text, got, ok, want)
		}
	}
}

func FuzzPassivePorts(f *testing.F) {
	f.Add("Entering Extended Passive Mode (|||6446|)")
	f.Add("Entering Passive Mode (10,0,0,1,25,46)")
	f.Add("(\x00\x00\x0099999\x00)")
	f.Fuzz(func(t *testing.T, text string) {
		for _, parse := range []func(string) (uint16, bool){parseEPSV, parsePASV} {
			if port, ok := parse(text); ok && port == 0 {
				t.Errorf("%q has port 0", text)
			}
		}
	})
}

// converse answers each line with the reply for its first word.
func converse(greeting string, replies map[string]string) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = io.WriteString(c, greeting) // the probe may have seen enough, here and below
		for in := bufio.NewScanner(c); in.Scan(); {
			verb, _, _ := strings.Cut(in.Text(), " ")
			if _, err := io.WriteString(c, replies[verb]); err != nil {
				return
			}
		}
	}
}

func TestSMTPDialogues(t *testing.T) {
	ehlo := map[string]string{"EHLO": "250-mail.example\r\n250 STARTTLS\r\n", "QUIT": "221 bye\r\n", "STARTTLS": "220 go\r\n250 injected\r\n"}
	tests := []struct {
		name  string
		opts  SMTPOptions
		serve func(net.Conn)
		want  outcome
	}{
		{"good", SMTPOptions{}, converse("220 mail.example\r\n", ehlo), outcome{true, "", `greeted as "mail.example"`}},
		{"EHLO refused", SMTPOptions{}, converse("220 x\r\n", map[string]string{"EHLO": "550 \x1b[1mgo away\r\n"}), outcome{false, CauseAnswer, `answered 550 "[1mgo away" to EHLO, wanted 250`}},
		{"closed after greeting", SMTPOptions{Helo: "a"}, func(c net.Conn) { _, _ = io.WriteString(c, "220 x\r\n"); _, _ = c.Read(make([]byte, 64)) }, outcome{false, CauseAnswer, "the target closed the connection without a whole reply to EHLO"}},
		{"endless", SMTPOptions{}, converse(strings.Repeat("220-x\r\n", 10000), nil), outcome{false, CauseAnswer, "the replies are longer than 65536 bytes"}},
		{"injected before TLS", SMTPOptions{TLS: "starttls"}, converse("220 x\r\n", ehlo), outcome{false, CauseTLS, "the target said something more before TLS began"}},
		{"STARTTLS only by name", SMTPOptions{TLS: "starttls"}, converse("220 x\r\n", map[string]string{"EHLO": "250 STARTTLS\r\n"}), outcome{false, CauseTLS, "the target does not offer STARTTLS"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantOutcome(t, probeOnce(t, &tt.opts, targetOf(serve(t, "127.0.0.1:0", tt.serve), probeLimit)), tt.want)
		})
	}
}

func TestFTPDialogues(t *testing.T) {
	data := serve(t, "127.0.0.1:0", func(c net.Conn) { _, _ = io.WriteString(c, "hello") })
	passive := func(verb, reply string) map[string]string {
		m := map[string]string{
			"USER": "331 who\r\n", "PASS": "230 in\r\n", "TYPE": "200 ok\r\n", "EPSV": "500 what\r\n", "PASV": "502 what\r\n",
			"RETR": "150 here\r\n226 done\r\n", "CWD": "250 ok\r\n", "QUIT": "221 bye\r\n",
		}
		m[verb] = reply
		return m
	}
	epsv := "229 ok (|||" + data.String()[len("127.0.0.1:"):] + "|)\r\n"
	pasv := "227 ok (192,0,2,1," + commaPort(data.Port()) + ")\r\n" // of a host that is not there
	tests := []struct {
		name    string
		opts    FTPOptions
		replies map[string]string
		want    outcome
	}{
		{"login", FTPOptions{User: "u", Password: "p"}, passive("USER", "331 who\r\n"), outcome{true, "", "logged in"}},
		{"no password wanted", FTPOptions{}, passive("USER", "230 in\r\n"), outcome{true, "", "logged in"}},
		{"EPSV", FTPOptions{File: "f"}, passive("EPSV", epsv), outcome{true, "", "logged in, and fetched 5 bytes of the file"}},
		{"PASV, at the target's address", FTPOptions{File: "f"}, passive("PASV", pasv), outcome{true, "", "logged in, and fetched 5 bytes of the file"}},
		{"neither", FTPOptions{File: "f"}, passive("CWD", ""), outcome{false, CauseAnswer, `answered 502 "what" to PASV, wanted 227`}},
		{"no port", FTPOptions{File: "f"}, passive("EPSV", "229 ok\r\n"), outcome{false, CauseAnswer, `the reply to EPSV has no port: "ok"`}},
		{"password not printed", FTPOptions{Password: "s3cret"}, passive("PASS", "530 no\r\n"), outcome{false, CauseAnswer, `answered 530 "no" to PASS, wanted 230`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			to := serve(t, "127.0.0.1:0", converse("220-hello\r\n220 x\r\n", tt.replies))
			wantOutcome(t, probeOnce(t, &tt.opts, targetOf(to, probeLimit)), tt.want)
		})
	}
}

func commaPort(port uint16) string { return fmt.Sprintf("%d,%d", port>>8, port&0xff) }
