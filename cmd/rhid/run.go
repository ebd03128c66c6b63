package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"rhid/internal/config"
	"rhid/internal/daemon"
)

func newRunCmd() *cobra.Command {
	var file, node, level, format string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the daemon in the foreground",
		Long: `Run the daemon in the foreground.

SIGTERM and SIGINT drain, withdraw and end, within stop.timeout; a second one
skips the drain. SIGHUP reads the configuration again: all of it takes effect,
or none.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(file)
			if err != nil {
				return &exitError{exitUsage, err}
			}
			log, err := newLogger(or(level, cfg.Log.Level), or(format, cfg.Log.Format))
			if err != nil {
				return &exitError{exitUsage, err}
			}
			if node == "" {
				if node, err = ownNode(cfg); err != nil {
					return &exitError{exitUsage, err}
				}
			}
			return runDaemon(cmd.Context(), daemon.Options{File: file, Node: node, Version: version, Log: log})
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", defaultConfig, "configuration file")
	cmd.Flags().StringVar(&node, "node", "", "name of this node in the configuration; the host name by default")
	cmd.Flags().StringVar(&level, "log-level", "", "debug, info, warn or error; log.level by default")
	cmd.Flags().StringVar(&format, "log-format", "", "text or json; log.format by default")
	return cmd
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// ownNode is the node with the host's name, or the only one there is.
func ownNode(cfg *config.Config) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("finding the host name: %w", err)
	}
	if _, ok := cfg.Node(host); ok {
		return host, nil
	}
	if len(cfg.Nodes) == 1 {
		return cfg.Nodes[0].Name, nil
	}
	return "", fmt.Errorf("the configuration has no node with the host name %q; say which one this is with --node", host)
}

func newLogger(level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %s: must be debug, info, warn or error", level)
	}
	opts := &slog.HandlerOptions{Level: l}
	switch format {
	case "json":
		return slog.New(slog.NewJSONHandler(os.Stderr, opts)), nil
	case "text":
		return slog.New(slog.NewTextHandler(os.Stderr, opts)), nil
	default:
		return nil, fmt.Errorf("--log-format %s: must be text or json", format)
	}
}

// runDaemon runs the daemon with signals turned into requests.
func runDaemon(ctx context.Context, opts daemon.Options) error {
	stop, reload := make(chan struct{}, 2), make(chan struct{}, 1)
	opts.Stop, opts.Reload = stop, reload
	opts.Guard = []string{"/proc/self/exe", guardName}
	sigs := make(chan os.Signal, 8)
	signal.Notify(sigs, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(sigs)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case <-ended:
				return
			case s := <-sigs:
				to := stop
				if s == syscall.SIGHUP {
					to = reload
				}
				select {
				case to <- struct{}{}:
				default: // one is waiting already
				}
			}
		}
	}()
	err := daemon.Run(ctx, opts)
	var bad config.Errors
	if errors.As(err, &bad) {
		return &exitError{exitUsage, err}
	}
	if err != nil {
		return &exitError{exitNo, err}
	}
	return nil
}
