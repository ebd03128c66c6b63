package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"rhid/announce/kernel"
)

// cleanupFlags are the flags of "rhid cleanup".
type cleanupFlags struct {
	config   string
	protocol int
	label    string
	output   string
}

func newCleanupCmd() *cobra.Command {
	var f cleanupFlags
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove what a dead daemon left in the kernel: its routes and VIP addresses",
		Long: `Removes the routes with rhid's protocol number from all tables, and the VIP
addresses with rhid's label or protocol number from lo, IPv4 and IPv6, and
prints what it removed. Protocol number and label come from the configuration;
where that cannot be used, from the defaults; a flag beats both.

A running daemon would put all back within a second: stop it first. The exit
status is 0 when nothing is left, and 1 when something could not be removed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(f.output); err != nil {
				return err
			}
			s, err := f.settings(cmd)
			if err != nil {
				return err
			}
			removed, err := kernel.Cleanup(cmd.Context(), s)
			return reportCleanup(cmd, removed, err, f.output == "json")
		},
	}
	cmd.Flags().StringVarP(&f.config, "config", "c", defaultConfig, "configuration file")
	cmd.Flags().IntVar(&f.protocol, "protocol", 151, "rhid's protocol number in the kernel's tables")
	cmd.Flags().StringVar(&f.label, "label", "lo:rhid", "label of rhid's IPv4 addresses")
	registerOutput(cmd, &f.output)
	return cmd
}

// settings says whose objects go. A configuration that is wrong or missing
// must not keep a host announcing what nobody looks after any more.
func (f *cleanupFlags) settings(cmd *cobra.Command) (kernel.Settings, error) {
	s := kernel.Settings{Protocol: f.protocol, Label: f.label, Table: 254, NextHop: kernel.NextHopLo}
	// The password files are of no use here.
	if cfg, err := loadConfig(f.config, false); err != nil {
		cmd.PrintErrln("rhid: going by the defaults:", err)
	} else {
		if !cmd.Flags().Changed("protocol") {
			s.Protocol = cfg.Kernel.Protocol
		}
		if !cmd.Flags().Changed("label") {
			s.Label = cfg.VIP.Label
		}
		for _, svc := range cfg.Services {
			s.VIPs = append(s.VIPs, svc.VIPs...)
		}
	}
	if err := s.Validate(); err != nil {
		return s, &exitError{exitUsage, err}
	}
	return s, nil
}

// cleanupReport is the JSON form of "rhid cleanup".
type cleanupReport struct {
	Removed []string `json:"removed"`
	Error   string   `json:"error,omitempty"` // what could not be removed, one line each
}

func reportCleanup(cmd *cobra.Command, removed []string, err error, asJSON bool) error {
	if asJSON {
		r := cleanupReport{Removed: append([]string{}, removed...)}
		if err != nil {
			r.Error = err.Error()
		}
		if werr := printJSON(cmd.OutOrStdout(), r); werr != nil {
			return &exitError{exitNo, werr}
		}
	} else {
		for _, line := range removed {
			fmt.Fprintln(cmd.OutOrStdout(), "removed", line)
		}
		if err == nil && len(removed) == 0 {
			fmt.Fprintln(cmd.OutOrStdout(), "nothing to remove")
		}
	}
	if err != nil {
		return &exitError{exitNo, err}
	}
	return nil
}
