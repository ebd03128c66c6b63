package config

import (
	"fmt"
	"os"

	"rhid/internal/config/strict"
)

// Error is one thing wrong in a configuration; its text begins with
// file:line:column.
type Error = strict.Error

// Errors are all the things wrong in a configuration, by position.
type Errors = strict.Errors

// Load reads, completes and validates the configuration file at path, and
// makes sure that the password files it names can be used. What is wrong with
// the configuration is returned as Errors; other errors mean that the file
// could not be read.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	return Parse(path, data, os.ReadFile)
}

// Parse completes and validates a configuration. file is only used in
// messages. readFile reads the password files that the configuration names;
// with nil they are not looked at. The error is of type Errors.
func Parse(file string, data []byte, readFile func(string) ([]byte, error)) (*Config, error) {
	cfg := new(Config)
	doc, err := strict.Decode(file, data, cfg)
	if doc == nil {
		return nil, err
	}
	resolve(cfg, doc)
	v := newValidator(cfg, doc, readFile)
	v.all()
	if err := doc.Err(); err != nil {
		return nil, err
	}
	return cfg, nil
}
