package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"rhid/internal/config"
	"rhid/internal/control"
	"rhid/services"
)

func newPlanCmd() *cobra.Command {
	var t talk
	var fail []string
	var each, file string
	cmd := &cobra.Command{
		Use:   "plan (--fail WHAT ... | --each node|site)",
		Short: "Show what failures would do, from the live cluster or from a file alone",
		Long: `Show what failures would do. WHAT is node:NAME, site:NAME or service:NAME@NODE;
several fail together. --each goes through all nodes or sites, one after the
other. With --config the plan is made from the file alone, with every node well;
otherwise from the state of the cluster as the daemon knows it. The exit status
is 1 when a service would be lost or a node would be over its capacity.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(t.output); err != nil {
				return err
			}
			if (len(fail) == 0) == (each == "") {
				return &exitError{exitUsage, errors.New("one of --fail and --each is needed, and not both")}
			}
			foresee, nodes, err := forecaster(cmd, file, t.socket)
			if err != nil {
				return err
			}
			cases, err := planCases(fail, each, nodes)
			if err != nil {
				return err
			}
			return showPlans(cmd.OutOrStdout(), cases, foresee, t.output == "json")
		},
	}
	t.register(cmd)
	cmd.Flags().StringArrayVar(&fail, "fail", nil, "what fails; may be repeated")
	cmd.Flags().StringVar(&each, "each", "", "node or site: every one of them, one after the other")
	cmd.Flags().StringVarP(&file, "config", "c", "", "plan from this file instead of the live cluster")
	return cmd
}

type foreseer func(failures []string) (services.Outlook, error)

// forecaster returns how to look ahead, and the nodes there are.
func forecaster(cmd *cobra.Command, file, socket string) (foreseer, []services.Node, error) {
	if file == "" {
		c := control.NewClient(socket)
		s, err := c.Status(cmd.Context())
		if err != nil {
			return nil, nil, asked(err)
		}
		var nodes []services.Node
		if s.Cluster != nil {
			for _, n := range s.Cluster.Nodes {
				nodes = append(nodes, services.Node{Name: n.Name, Site: n.Site})
			}
		}
		return func(f []string) (services.Outlook, error) {
			o, err := c.Foresee(cmd.Context(), f)
			return o, asked(err)
		}, nodes, nil
	}
	cfg, err := config.Load(file)
	if err != nil {
		return nil, nil, &exitError{exitUsage, err}
	}
	in := services.AllWell(cfg.DecisionNodes(), cfg.DecisionServices())
	return func(f []string) (services.Outlook, error) { return foreseeIn(in, f) }, in.Nodes, nil
}

func foreseeIn(in services.Inputs, names []string) (services.Outlook, error) {
	var failures []services.Failure
	for _, text := range names {
		f, err := services.ParseFailure(text, in)
		if err != nil {
			return services.Outlook{}, &exitError{exitUsage, err}
		}
		failures = append(failures, f)
	}
	return services.Foresee(in, names, failures...), nil
}

// planCases are the sets of failures to look at.
func planCases(fail []string, each string, nodes []services.Node) ([][]string, error) {
	var out [][]string
	seen := map[string]bool{"": true}
	switch each {
	case "":
		return [][]string{fail}, nil
	case "node":
		for _, n := range nodes {
			out = append(out, []string{"node:" + n.Name})
		}
	case "site":
		for _, n := range nodes {
			if !seen[n.Site] {
				seen[n.Site] = true
				out = append(out, []string{"site:" + n.Site})
			}
		}
	default:
		return nil, &exitError{exitUsage, fmt.Errorf("--each %s: must be node or site", each)}
	}
	return out, nil
}

func showPlans(w io.Writer, cases [][]string, foresee foreseer, asJSON bool) error {
	var all []services.Outlook
	bad := false
	for _, c := range cases {
		o, err := foresee(c)
		if err != nil {
			return err
		}
		all = append(all, o)
		bad = bad || len(o.Full) > 0
		for _, e := range o.Services {
			bad = bad || e.Lost
		}
	}
	if asJSON {
		if err := printJSON(w, all); err != nil {
			return err
		}
	} else {
		for _, o := range all {
			printOutlook(w, o)
		}
	}
	if bad {
		return &exitError{exitNo, nil}
	}
	return nil
}

func printOutlook(w io.Writer, o services.Outlook) {
	fmt.Fprintf(w, "if %s failed:\n", strings.Join(o.Fail, " and "))
	var rows [][]string
	for _, e := range o.Services {
		note := "stays"
		switch {
		case e.Lost:
			note = "LOST: nobody is left to announce it"
		case e.Moves && e.OneSite:
			note = "moves, and only one site is left that can serve it"
		case e.Moves:
			note = "moves"
		case e.OneSite:
			note = "stays, and only one site is left that can serve it"
		}
		rows = append(rows, []string{e.Service, dash(e.Before), dash(e.After), note})
	}
	table(w, "SERVICE NOW THEN EFFECT", rows)
	for _, f := range o.Full {
		fmt.Fprintf(w, "OVER CAPACITY %s\n", f)
	}
	fmt.Fprintln(w)
}

func dash(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, ", ")
}
