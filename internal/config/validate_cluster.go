package config

import (
	"path/filepath"

	"rhid/internal/config/strict"
)

// cluster validates what several nodes share.
func (v *validator) cluster() {
	c := v.cfg.Cluster
	at := strict.Path{"cluster"}
	v.name(at.With("name"), c.Name)
	if c.KeyFile != "" && !filepath.IsAbs(c.KeyFile) {
		v.fail(at.With("key_file"), "%q must be an absolute path", c.KeyFile)
	}
	if !filepath.IsAbs(c.StateDir) {
		v.fail(at.With("state_dir"), "%q must be an absolute path", c.StateDir)
	}
}
