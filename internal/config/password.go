package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"rhid/internal/config/strict"
)

// maxPassword is the longest TCP MD5 key (TCP_MD5SIG_MAXKEYLEN).
const maxPassword = 80

// credentialName is what systemd takes for the name of a credential.
var credentialName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,255}$`)

// credentialsDir is where systemd has put the credentials of this process; ""
// where it was not asked for any, as in a shell.
func credentialsDir() string { return os.Getenv("CREDENTIALS_DIRECTORY") }

func (v *validator) password(p strict.Path, r *Router) {
	v.passwordFile(p.With("password_file"), r.PasswordFile)
	at := p.With("password_credential")
	switch {
	case r.PasswordCred == "":
	case r.PasswordFile != "":
		v.fail(at, "cannot stand together with password_file")
	case !credentialName.MatchString(r.PasswordCred) || strings.Trim(r.PasswordCred, ".") == "":
		v.fail(at, "%q is not the name of a credential: letters, digits, '.', '_' and '-'", r.PasswordCred)
	case v.readFile != nil && credentialsDir() != "":
		if _, err := r.Password(v.readFile); err != nil {
			v.fail(at, "%v", err)
		}
	}
}

func (v *validator) passwordFile(p strict.Path, path string) {
	switch {
	case path == "":
		if v.doc.Has(p) {
			v.fail(p, "must not be empty")
		}
	case !filepath.IsAbs(path):
		v.fail(p, "%q must be an absolute path", path)
	case v.readFile != nil:
		if _, err := readPassword(path, v.readFile); err != nil {
			v.fail(p, "%v", err)
		}
	}
}

// Password returns the router's MD5 password, "" for none. It is the first line
// of a file or of a credential of the systemd unit; see readPassword for what is
// an error, and a credential without $CREDENTIALS_DIRECTORY is one, too.
func (r *Router) Password(readFile func(string) ([]byte, error)) (string, error) {
	switch {
	case r.PasswordFile != "":
		return readPassword(r.PasswordFile, readFile)
	case r.PasswordCred == "":
		return "", nil
	case credentialsDir() == "":
		return "", fmt.Errorf("there is no credential %s: systemd has set no CREDENTIALS_DIRECTORY; add LoadCredential=%s:PATH to the unit", r.PasswordCred, r.PasswordCred)
	default:
		return readPassword(filepath.Join(credentialsDir(), r.PasswordCred), readFile)
	}
}

// readPassword returns the first line of a password file. It fails when the
// file cannot be read, the line is empty, or it is longer than the 80 bytes
// that TCP MD5 takes. The password is not part of the error.
func readPassword(path string, readFile func(string) ([]byte, error)) (string, error) {
	data, err := readFile(path)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return "", fmt.Errorf("password file %s cannot be read: %w", path, err)
	}
	first, _, _ := strings.Cut(string(data), "\n")
	first = strings.TrimSuffix(first, "\r")
	switch {
	case first == "":
		return "", fmt.Errorf("the first line of password file %s is empty", path)
	case len(first) > maxPassword:
		return "", fmt.Errorf("the password in %s has %d bytes; TCP MD5 takes %d", path, len(first), maxPassword)
	}
	return first, nil
}
