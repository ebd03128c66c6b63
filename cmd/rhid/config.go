package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"rhid/internal/config"
)

// newConfigCmd returns "rhid config" with its subcommands. None of them needs
// a running daemon.
func newConfigCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check, show and describe the configuration",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newConfigCheckCmd(), newConfigShowCmd(), newConfigSchemaCmd(), newConfigRouterCmd())
	return cmd
}

func newConfigCheckCmd() *cobra.Command {
	var output string
	var noFiles bool
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Report everything that is wrong with a configuration file",
		Long: `Reads FILE as the daemon would and reports everything that is wrong with it,
one line each, with file, line and column. The exit status is 0 when nothing
is, and 2 otherwise.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			cfg, err := loadConfig(args[0], !noFiles)
			return reportCheck(cmd, args[0], cfg, err, output == "json")
		},
	}
	registerOutput(cmd, &output)
	cmd.Flags().BoolVar(&noFiles, "no-files", false, "do not look at the password files, which other hosts may not have")
	return cmd
}

// loadConfig reads a configuration, with the password files it names or
// without.
func loadConfig(path string, files bool) (*config.Config, error) {
	if files {
		return config.Load(path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	return config.Parse(path, data, nil)
}

// checkReport is the JSON form of "rhid config check".
type checkReport struct {
	File     string        `json:"file"`
	OK       bool          `json:"ok"`
	Services int           `json:"services"`
	Nodes    int           `json:"nodes"`
	Digest   string        `json:"digest,omitempty"` // of the resolved configuration
	Errors   config.Errors `json:"errors"`
}

func reportCheck(cmd *cobra.Command, file string, cfg *config.Config, err error, asJSON bool) error {
	var errs config.Errors
	if err != nil && !errors.As(err, &errs) {
		return &exitError{code: exitUsage, err: err}
	}
	if asJSON {
		report := checkReport{File: file, OK: err == nil, Errors: errs}
		if errs == nil {
			report.Errors = config.Errors{}
			report.Services, report.Nodes, report.Digest = len(cfg.Services), len(cfg.Nodes), cfg.Digest()
		}
		if werr := printJSON(cmd.OutOrStdout(), report); werr != nil {
			return &exitError{code: exitNo, err: werr}
		}
	} else if errs != nil {
		cmd.PrintErrln(errs.Error())
	} else {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: ok: %s, %s\n", file, count(len(cfg.Services), "service"), count(len(cfg.Nodes), "node"))
	}
	if errs != nil {
		return &exitError{code: exitUsage}
	}
	return nil
}

// count returns "1 node" or "3 nodes".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func newConfigShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "show FILE",
		Short: "Print a configuration file with every default filled in",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := loadConfig(args[0], false)
			var errs config.Errors
			if errors.As(err, &errs) {
				cmd.PrintErrln(errs.Error())
				return &exitError{code: exitUsage}
			}
			if err != nil {
				return &exitError{code: exitUsage, err: err}
			}
			return printBytes(cmd, func() ([]byte, error) { return config.Show(cfg) })
		},
	}
}

func newConfigSchemaCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of the configuration, for editors",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printBytes(cmd, config.Schema)
		},
	}
}

// printBytes writes what a function returns to the standard output.
func printBytes(cmd *cobra.Command, render func() ([]byte, error)) error {
	out, err := render()
	if err != nil {
		return &exitError{code: exitNo, err: err}
	}
	if _, err := cmd.OutOrStdout().Write(out); err != nil {
		return &exitError{code: exitNo, err: fmt.Errorf("writing: %w", err)}
	}
	return nil
}
