//go:build integration

package packaging

import (
	"debug/elf"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const testVersion = "1.2.3~test"

// common is what both packages hold besides the examples, with its mode.
func common() map[string]string {
	return map[string]string{
		"/usr/bin/rhid":                                  "-rwxr-xr-x",
		"/usr/lib/systemd/system/rhid.service":           "-rw-r--r--",
		"/usr/lib/rhid/stop-post":                        "-rwxr-xr-x",
		"/usr/lib/rhid/before-253.conf":                  "-rw-r--r--",
		"/usr/lib/sysusers.d/rhid.conf":                  "-rw-r--r--",
		"/usr/lib/sysctl.d/60-rhid.conf":                 "-rw-r--r--",
		"/etc/rhid":                                      "drwxr-x---",
		"/etc/rhid/rhid.yaml.example":                    "-rw-r--r--",
		"/usr/share/doc/rhid/examples/one-node.yaml":     "-rw-r--r--",
		"/usr/share/bash-completion/completions/rhid":    "-rw-r--r--",
		"/usr/share/fish/vendor_completions.d/rhid.fish": "-rw-r--r--",
		"/usr/share/doc/rhid/README.md":                  "-rw-r--r--",
		"/usr/share/doc/rhid/CHANGELOG.md":               "-rw-r--r--",
		"/usr/share/doc/rhid/operations.md":              "-rw-r--r--",
		"/usr/share/doc/rhid/reference.yaml":             "-rw-r--r--",
	}
}

func TestPackages(t *testing.T) {
	dist := buildPackages(t)
	deb := one(t, filepath.Join(dist, "*.deb"))
	rpm := one(t, filepath.Join(dist, "*.rpm"))

	t.Run("deb holds what it should", func(t *testing.T) {
		want := common()
		want["/usr/share/zsh/vendor-completions/_rhid"] = "-rw-r--r--"
		want["/usr/share/doc/rhid/copyright"] = "-rw-r--r--"
		checkContents(t, debContents(t, deb), want)
		if got := output(t, "dpkg-deb", "-f", deb, "Package", "Version"); got != "Package: rhid\nVersion: "+testVersion+"\n" {
			t.Errorf("control file says\n%s", got)
		}
	})
	t.Run("rpm holds what it should", func(t *testing.T) {
		want := common()
		want["/usr/share/zsh/site-functions/_rhid"] = "-rw-r--r--"
		want["/usr/share/licenses/rhid/LICENSE"] = "-rw-r--r--"
		checkContents(t, rpmContents(t, rpm), want)
		if got := output(t, "rpm", "-qp", "--qf", "%{NAME} %{VERSION}", rpm); got != "rhid "+testVersion {
			t.Errorf("header says %q", got)
		}
		for _, s := range []string{"postinstall", "preuninstall", "postuninstall"} {
			if !strings.Contains(output(t, "rpm", "-qp", "--scripts", rpm), s+" scriptlet") {
				t.Errorf("no %s script", s)
			}
		}
	})

	root := t.TempDir()
	output(t, "dpkg-deb", "-x", deb, root)
	t.Run("binary is static and knows its version", func(t *testing.T) {
		checkStatic(t, filepath.Join(root, "usr/bin/rhid"))
	})
	t.Run("completions are for rhid", func(t *testing.T) {
		for _, f := range []string{"bash-completion/completions/rhid", "zsh/vendor-completions/_rhid", "fish/vendor_completions.d/rhid.fish"} {
			b, err := os.ReadFile(filepath.Join(root, "usr/share", f))
			if err != nil || !strings.Contains(string(b), "__complete") {
				t.Errorf("%s is no completion script (%v)", f, err)
			}
		}
	})
	t.Run("example is a valid configuration", func(t *testing.T) {
		output(t, filepath.Join(root, "usr/bin/rhid"), "config", "check", filepath.Join(root, "etc/rhid/rhid.yaml.example"))
	})
	t.Run("systemd takes the unit", func(t *testing.T) { checkUnit(t, root) })
	t.Run("deb installs and goes", func(t *testing.T) { installAndPurge(t, deb) })
}

// buildPackages runs what users run, into a directory of the test's own.
func buildPackages(t *testing.T) (dist string) {
	t.Helper()
	dir := t.TempDir()
	dist = filepath.Join(dir, "dist")
	cmd := exec.Command("make", "--no-print-directory", "package",
		"VERSION=v"+testVersion, "PKG_VERSION="+testVersion, "BIN="+filepath.Join(dir, "bin"), "DIST="+dist)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make package: %v\n%s", err, out)
	}
	return dist
}

// checkContents compares a package's files with those wanted; of the examples
// there may be more.
func checkContents(t *testing.T, got, want map[string]string) {
	t.Helper()
	maps.DeleteFunc(got, func(name, mode string) bool {
		_, wanted := want[name]
		return !wanted && mode == "-rw-r--r--" && strings.HasPrefix(name, "/usr/share/doc/rhid/examples/")
	})
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("contents (-want +got):\n%s", d)
	}
}

// debContents maps the names in a .deb to their modes, without the directories
// that belong to the system.
func debContents(t *testing.T, deb string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for line := range strings.Lines(output(t, "dpkg-deb", "-c", deb)) {
		f := strings.Fields(line)
		name := strings.TrimSuffix(strings.TrimPrefix(f[5], "."), "/")
		if !strings.HasPrefix(f[0], "d") || name == "/etc/rhid" {
			got[name] = f[0]
		}
	}
	return got
}

func rpmContents(t *testing.T, rpm string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for line := range strings.Lines(output(t, "rpm", "-qp", "--qf", `[%{FILEMODES:perms} %{FILENAMES}\n]`, rpm)) {
		f := strings.Fields(line)
		got[f[1]] = f[0]
	}
	return got
}

func checkStatic(t *testing.T, bin string) {
	t.Helper()
	f, err := elf.Open(bin)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the binary needs a dynamic loader")
		}
	}
	if out := output(t, bin, "version"); !strings.Contains(out, testVersion) {
		t.Errorf("rhid version says %q", out)
	}
}

// checkUnit lets systemd read the unit as installed. The only complaint it may
// have is the one that the unit announces.
func checkUnit(t *testing.T, root string) {
	t.Helper()
	unit := filepath.Join(root, "usr/lib/systemd/system/rhid.service")
	b, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	// verify wants the commands to be there, and takes no other root for them.
	local := regexp.MustCompile(`/usr/(bin|lib)/rhid\b`).ReplaceAllString(string(b), root+"$0")
	copied := filepath.Join(t.TempDir(), "rhid.service")
	writeFile(t, copied, local, 0o644)
	out, err := exec.Command("systemd-analyze", "verify", "--recursive-errors=no", "--man=no", copied).CombinedOutput()
	announced := false
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "ignoring: notify-reload") {
			announced = true
			continue
		}
		t.Errorf("systemd says %s", line)
	}
	if err != nil && !announced {
		t.Errorf("systemd-analyze verify: %v", err)
	}
}

// installAndPurge installs and purges the package in a mount namespace, on a
// throwaway layer over this machine's own root, and looks at each step.
func installAndPurge(t *testing.T, deb string) {
	t.Helper()
	out := output(t, "unshare", "--mount", "testdata/install.sh", deb)
	for _, want := range []string{
		"user: rhid /var/lib/rhid /usr/sbin/nologin",
		"config: root:rhid 750",
		"restart by the package: none",
		"after purge: no files",
	} {
		if !slices.Contains(strings.Split(out, "\n"), want) {
			t.Errorf("no line %q in\n%s", want, out)
		}
	}
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// one returns the only match.
func one(t *testing.T, pattern string) string {
	t.Helper()
	m, err := filepath.Glob(pattern)
	if err != nil || len(m) != 1 {
		t.Fatalf("want one file %s, got %v (%v)", pattern, m, err)
	}
	return m[0]
}
