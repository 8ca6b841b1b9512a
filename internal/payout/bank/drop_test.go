package bank

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/testkit"
)

// key returns a key pair: the private key as PEM and as a signer, and the public key as a line.
func key(t *testing.T) (private []byte, signer ssh.Signer, line []byte) {
	t.Helper()
	_, secret, err := ed25519.GenerateKey(rand.Reader)
	testkit.Check(t, err)
	block := testkit.Must(ssh.MarshalPrivateKey(secret, ""))
	if signer, err = ssh.NewSignerFromKey(secret); err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block), signer, ssh.MarshalAuthorizedKey(signer.PublicKey())
}

// sshd starts an SFTP server that accepts one key: OpenSSH's server program, or a library that supports fewer
// extensions. It returns the settings to connect.
func sshd(t *testing.T, root string, openssh bool) SFTP {
	t.Helper()
	_, host, hostLine := key(t)
	private, user, _ := key(t)
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if string(k.Marshal()) != string(user.PublicKey().Marshal()) {
			return nil, fmt.Errorf("unknown key")
		}
		return nil, nil
	}}
	config.AddHostKey(host)
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))
	var work sync.WaitGroup
	t.Cleanup(func() { l.Close(); work.Wait() })
	work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { serve(conn, config, root, openssh) })
		}
	})
	return SFTP{Address: l.Addr().String(), User: "stipend", Root: root, Key: private, HostKey: hostLine}
}

func serve(conn net.Conn, config *ssh.ServerConfig, root string, openssh bool) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		go func() {
			for r := range requests {
				_ = r.Reply(r.Type == "subsystem", nil)
			}
		}()
		if openssh {
			cmd := exec.Command("/usr/lib/openssh/sftp-server", "-d", root)
			cmd.Stdin, cmd.Stdout = channel, channel
			_ = cmd.Run()
		} else if server, err := sftp.NewServer(channel, sftp.WithServerWorkingDirectory(root)); err == nil {
			_ = server.Serve()
		}
		_ = channel.Close()
	}
}

// Drops in a local directory and on two kinds of servers keep the contract of Drop.
func TestDrops(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, root string) *Drop{
		"folder": func(t *testing.T, root string) *Drop {
			return testkit.Must(OpenFolder(root))
		},
		"OpenSSH": func(t *testing.T, root string) *Drop { return server(t, root, true) },
		"library": func(t *testing.T, root string) *Drop { return server(t, root, false) },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			keepsTheContract(t, root, open(t, root))
		})
	}
}

func server(t *testing.T, root string, openssh bool) *Drop {
	for _, part := range []string{partOut, partTaken, partIn} {
		testkit.Check(t, os.Mkdir(filepath.Join(root, part), 0o700))
	}
	return testkit.Must(OpenSFTP(sshd(t, root, openssh)))
}

func keepsTheContract(t *testing.T, root string, d *Drop) {
	ctx := t.Context()
	seen := func() []string {
		return testkit.Must(filepath.Glob(filepath.Join(root, "out", "*.xml")))
	}
	release := func(token string, want payout.Outcome) {
		t.Helper()
		if got := d.Release(ctx, "S0000001.xml", token); got.Outcome != want || want != payout.Accepted && got.Reason == "" {
			t.Fatalf("released: %+v, want %s", got, want)
		}
	}
	found := func(want bool) {
		t.Helper()
		if got, err := d.Find(ctx, "S0000001.xml"); err != nil || got != want {
			t.Fatalf("found: %v, %v", got, err)
		}
	}
	// The bank does not see a staged file, and staging with one token does not affect another.
	for _, token := range []string{"a", "b"} {
		testkit.Check(t, d.Stage(ctx, "S0000001.xml", token, []byte("<order/>")))
	}
	if err := d.Stage(ctx, "S0000001.xml", "a", []byte("<another/>")); err == nil {
		t.Fatal("a staged file was overwritten")
	}
	found(false)
	if n := len(seen()); n != 0 {
		t.Fatalf("the bank sees %d files", n)
	}
	// Release is idempotent.
	for range 3 {
		release("a", payout.Accepted)
	}
	found(true)
	if b, err := os.ReadFile(filepath.Join(root, "out", "S0000001.xml")); err != nil || string(b) != "<order/>" ||
		len(seen()) != 1 {
		t.Fatalf("%q, %v", b, err)
	}
	// The bank moves the file to "taken", then deletes it.
	if err := os.Rename(filepath.Join(root, "out", "S0000001.xml"),
		filepath.Join(root, "taken", "S0000001.xml")); err != nil {
		t.Fatal(err)
	}
	found(true)
	release("a", payout.Accepted)
	testkit.Check(t, os.Remove(filepath.Join(root, "taken", "S0000001.xml")))
	found(false)
	release("a", payout.Unknown)
	if n := len(seen()); n != 0 {
		t.Fatalf("%d files are visible again", n)
	}
	for _, bad := range []string{"", "../x", "a/b", ".x", "a b"} {
		if err := d.Stage(ctx, bad, "a", []byte("x")); err == nil {
			t.Errorf("the file name %q was accepted", bad)
		}
		if got := d.Release(ctx, bad, "a"); got.Outcome != payout.Unknown {
			t.Errorf("%q: %+v", bad, got)
		}
	}
	// Responses are listed, read and moved to "done", also a second one of the same name.
	for range 2 {
		for _, name := range []string{"b.xml", "a.xml", ".hidden", "c d.xml"} {
			testkit.Check(t, os.WriteFile(filepath.Join(root, "in", name), []byte("response "+name), 0o600))
		}
		names, err := d.Responses(ctx)
		if err != nil || strings.Join(names, " ") != "a.xml b.xml" {
			t.Fatalf("%v, %v", names, err)
		}
		for _, name := range names {
			err := d.Read(ctx, name, func(in io.Reader) error {
				if b, err := io.ReadAll(in); err != nil || string(b) != "response "+name {
					t.Errorf("%q, %v", b, err)
				}
				return nil
			})
			testkit.Check(t, err)
			for range 2 {
				testkit.Check(t, d.Done(ctx, name))
			}
		}
	}
	if names, err := d.Responses(ctx); err != nil || len(names) != 0 {
		t.Errorf("%v, %v", names, err)
	}
	if kept, _ := filepath.Glob(filepath.Join(root, "done", "*")); len(kept) != 4 {
		t.Errorf("done has %v", kept)
	}
}

// A server with another host key gets no file, and neither does one that does not accept the user.
func TestSFTPTrustsOnlyTheConfiguredHostKey(t *testing.T) {
	root := t.TempDir()
	right := sshd(t, root, false)
	_, _, otherHost := key(t)
	otherUser, _, _ := key(t)
	for name, change := range map[string]func(*SFTP){
		"another server": func(s *SFTP) { s.HostKey = otherHost },
		"another user":   func(s *SFTP) { s.Key = otherUser },
		"no server":      func(s *SFTP) { s.Address = "127.0.0.1:1" },
	} {
		s := right
		change(&s)
		d := testkit.Must(OpenSFTP(s))
		if err := d.Stage(t.Context(), "S0000001.xml", "a", []byte("x")); err == nil {
			t.Errorf("%s: it was staged", name)
		}
		if got := d.Release(t.Context(), "S0000001.xml", "a"); got.Outcome != payout.Unknown || got.Reason == "" {
			t.Errorf("%s: %+v", name, got)
		}
		if _, err := d.Find(t.Context(), "S0000001.xml"); err == nil {
			t.Errorf("%s: it responded", name)
		}
	}
	for name, s := range map[string]SFTP{"no key": {Address: "a:1", User: "u", HostKey: otherHost},
		"no host key": {Address: "a:1", User: "u", Key: otherUser}, "no address": {}} {
		if _, err := OpenSFTP(s); err == nil {
			t.Errorf("%s: OpenSFTP succeeded", name)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(root, "*", "*")); len(files) != 0 {
		t.Errorf("%v", files)
	}
}
