package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// CheckSysctls returns what the sysctls of the calling thread's network
// namespace make of VIPs that are addresses on lo, one sentence a problem; nil
// if all is well. It only reads.
func CheckSysctls() []string { return checkSysctls("/proc/sys") }

// checkSysctls reads below root.
func checkSysctls(root string) []string {
	rules := []struct{ name, good, why string }{
		{"net.ipv4.conf.all.arp_ignore", "12",
			"the host answers ARP for VIPs on lo on all its links; set it to 1"},
		{"net.ipv4.conf.all.arp_announce", "2",
			"the host may name a VIP as sender of its ARP requests; set it to 2"},
	}
	var problems []string
	for _, r := range rules {
		b, err := os.ReadFile(filepath.Join(root, strings.ReplaceAll(r.name, ".", "/")))
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s cannot be read: %v", r.name, err))
			continue
		}
		if v := strings.TrimSpace(string(b)); len(v) != 1 || !strings.Contains(r.good, v) {
			problems = append(problems, fmt.Sprintf("%s is %s: %s", r.name, v, r.why))
		}
	}
	return problems
}
