package bgp

import (
	"strings"
	"testing"
	"time"

	"rhid/announce"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"
)

// Another witness than BGP says that the neighbour is gone: the session ends at
// once, with that reason, and may come back at once.
func TestLost(t *testing.T) {
	r := newRouter(t, "127.0.1.1", routeASN)
	b := start(t, "192.0.2.10/32", r.neighbour())
	b.put("192.0.2.10/32", announce.Attrs{})
	b.Lost(r.addr, "nobody is there yet") // without a session nothing happens
	for i := range 3 {
		b.join(r)
		r.update()
		b.place("192.0.2.10/32", "127.0.1.1", "present", "")
		closed, began := r.closed(), time.Now()
		b.Lost(r.addr, "BFD: nothing heard for 300ms")
		b.place("192.0.2.10/32", "127.0.1.1", "pending", "BFD: nothing heard for 300ms")
		if _, ok := r.next().Body.(*bgp.BGPNotification); !ok {
			t.Errorf("loss %d: the router was not told", i)
		}
		<-closed
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("loss %d: the connection was closed after %v", i, took)
		}
		st := b.Neighbours()[0]
		if st.Flaps != i+1 || st.LastDown == nil || st.LastDown.Kind != DownBFD || !strings.HasPrefix(st.LastDown.Text, "BFD") {
			t.Errorf("loss %d: %+v", i, st)
		}
	}
	began := time.Now()
	b.join(r)
	r.update()
	b.place("192.0.2.10/32", "127.0.1.1", "present", "")
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("the session came back after %v", took)
	}
}
