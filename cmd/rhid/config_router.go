package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"rhid/internal/config"
	"rhid/internal/routerconf"
)

func newConfigRouterCmd() *cobra.Command {
	var o routerconf.Options
	var secrets bool
	cmd := &cobra.Command{
		Use:   "router [FILE]",
		Short: "Print what routers, or the routing daemon beside rhid, must be told",
		Long: `Reads FILE (/etc/rhid/rhid.yaml by default) and prints the other side's
configuration. Over BGP that is the router's: the sessions with the hosts, the
VIPs in and out and nothing else. With --via kernel it is that of FRR or BIRD
beside rhid, which carries its kernel routes into OSPF, and that of the router on
the link. It is printed for reading and merging, not for loading as it is.`,
		Example: "  rhid config router --for frr\n  rhid config router --for bird --via kernel --side host --interface ens3",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := defaultConfig
			if len(args) > 0 {
				file = args[0]
			}
			cfg, err := loadConfig(file, false)
			var errs config.Errors
			if errors.As(err, &errs) {
				cmd.PrintErrln(errs.Error())
				return &exitError{code: exitUsage}
			}
			if err != nil {
				return &exitError{code: exitUsage, err: err}
			}
			if secrets {
				o.Password = routerPassword
			}
			text, err := routerconf.Write(cfg, o)
			if err != nil {
				return &exitError{code: exitUsage, err: err}
			}
			return printBytes(cmd, func() ([]byte, error) { return []byte(text), nil })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.For, "for", routerconf.FRR, "frr, bird, cisco or huawei")
	f.StringVar(&o.Via, "via", config.ViaBGP, "bgp or kernel")
	f.StringVar(&o.Side, "side", routerconf.SideBoth, "host, router or both")
	f.StringVar(&o.Node, "node", "", "only what concerns this node")
	f.StringSliceVar(&o.Routers, "router", nil, "only these BGP neighbours, by name or address, as one router; by default each name is one")
	f.StringVar(&o.HostInterface, "interface", "eth0", "with --via kernel: the host's link to the router")
	f.StringVar(&o.RouterInterface, "router-interface", "eth0", "with --via kernel: the router's link to the host")
	f.StringVar(&o.Area, "area", "0", "with --via kernel: the OSPF area of that link")
	f.BoolVar(&secrets, "secrets", false, "print MD5 passwords from their files")
	for name, words := range map[string][]string{"for": {"frr", "bird", "cisco", "huawei"}, "via": {"bgp", "kernel"}, "side": {"host", "router", "both"}} {
		must(cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)))
	}
	return cmd
}

// routerPassword reads the password of a router's sessions.
func routerPassword(r config.Router) (string, error) {
	if r.PasswordFile == "" {
		return "", nil // a credential is there for the unit only
	}
	return r.Password(os.ReadFile)
}
