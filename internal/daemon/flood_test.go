package daemon

import (
	"testing"

	"rhid/announce/bgp"
	"rhid/internal/config"
)

func TestFloodAlarm(t *testing.T) {
	m := &model{routers: []*teller{
		{place: "10.1.0.1", conf: config.Router{WarnPrefixes: 1000}},
		{place: "10.1.0.2", conf: config.Router{WarnPrefixes: 5000}},
	}}
	for _, tt := range []struct {
		at, state     string
		received, max int
		want          bool
	}{
		{"10.1.0.1", established, 1000, 50_000, false},
		{"10.1.0.1", established, 1001, 50_000, true},
		{"10.1.0.1", "idle", 1001, 50_000, false},
		{"10.1.0.2", established, 1001, 50_000, false},
		{"10.1.0.2", established, 3000, 4000, false},
		{"10.1.0.2", established, 3001, 4000, true}, // soon the session would end
		{"10.1.0.3", established, 9999, 50_000, false},
	} {
		got := m.floodAlarm(bgp.NeighbourStatus{Address: tt.at, State: tt.state, Received: tt.received, MaxReceived: tt.max})
		if len(got) > 0 != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}
