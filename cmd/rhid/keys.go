package main

import (
	"encoding/base64"
	"fmt"

	"github.com/spf13/cobra"

	"rhid/cluster"
	"rhid/internal/control"
)

func newKeysCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Make and change the keys of the gossip",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newKeysGenerateCmd(), newKeysRotateCmd())
	return cmd
}

func newKeysGenerateCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "generate",
		Short: "Print a new random key, as a line for cluster.key_file",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			key, err := cluster.GenerateKey()
			if err != nil {
				return &exitError{exitNo, err}
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), base64.StdEncoding.EncodeToString(key))
			return err
		},
	}
}

func newKeysRotateCmd() *cobra.Command {
	var socket string
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Give every node a new key, use it, and remove the old ones; all nodes must be there",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			key, err := cluster.GenerateKey()
			if err != nil {
				return &exitError{exitNo, err}
			}
			if err := control.NewClient(socket).RotateKey(cmd.Context(), key); err != nil {
				return asked(err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "every node uses the key %s, and has written it to its key file\n", cluster.KeyID(key))
			return err
		},
	}
	cmd.Flags().StringVar(&socket, "socket", defaultSocket, "control socket of the daemon")
	return cmd
}
