package bank

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// SFTP is how a bank's server is reached.
type SFTP struct {
	Address string // host:port
	User    string
	Root    string // the directory that has the parts: "" is where the user arrives
	Key     []byte // private key of the user, PEM
	// HostKey is the one key that the server may show, as a line of a known_hosts or public key file. Any other server is none.
	HostKey []byte
	Timeout time.Duration // of a connection and of each operation on it; 0: 30 s
}

// OpenSFTP makes a directory of a server a drop. It checks the keys, and does not connect yet: a bank that is down now is
// asked later.
func OpenSFTP(s SFTP) (*Drop, error) {
	if s.Address == "" || s.User == "" {
		return nil, errors.New("bank sftp: an address and a user are needed")
	}
	signer, err := ssh.ParsePrivateKey(s.Key)
	if err != nil {
		return nil, fmt.Errorf("bank sftp: the private key: %w", err)
	}
	host, err := hostKey(s.HostKey)
	if err != nil {
		return nil, fmt.Errorf("bank sftp: the server's key: %w", err)
	}
	if s.Timeout == 0 {
		s.Timeout = 30 * time.Second
	}
	return &Drop{name: "sftp://" + s.User + "@" + s.Address + "/" + s.Root, files: &remote{s, &ssh.ClientConfig{
		User: s.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.FixedHostKey(host),
		HostKeyAlgorithms: algorithms(host), Timeout: s.Timeout,
	}}}, nil
}

// algorithms asks the server for the very kind of key that is expected: servers have several.
func algorithms(key ssh.PublicKey) []string {
	if key.Type() == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{key.Type()}
}

func hostKey(text []byte) (ssh.PublicKey, error) {
	if key, _, _, _, err := ssh.ParseAuthorizedKey(text); err == nil {
		return key, nil
	}
	_, _, key, _, _, err := ssh.ParseKnownHosts(text)
	return key, err
}

type remote struct {
	s      SFTP
	config *ssh.ClientConfig
}

// do connects for each use: banks end idle sessions, and a file an hour needs none.
func (r *remote) do(ctx context.Context, fn func(dir) error) error {
	dialer := net.Dialer{Timeout: r.s.Timeout}
	conn, err := dialer.DialContext(ctx, "tcp", r.s.Address)
	if err != nil {
		return fmt.Errorf("bank sftp: %w", err)
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	watched := &deadlined{conn, r.s.Timeout}
	c, channels, requests, err := ssh.NewClientConn(watched, r.s.Address, r.config)
	if err != nil {
		return fmt.Errorf("bank sftp: %w", err)
	}
	session := ssh.NewClient(c, channels, requests)
	defer func() { _ = session.Close() }()
	client, err := sftp.NewClient(session)
	if err != nil {
		return fmt.Errorf("bank sftp: %w", err)
	}
	defer func() { _ = client.Close() }()
	return fn(&station{client, r.s.Root})
}

// deadlined is a connection on which nothing may take longer than a while: a server that hangs must not hold a worker.
type deadlined struct {
	net.Conn
	each time.Duration
}

func (d *deadlined) Read(b []byte) (int, error) {
	if err := d.SetReadDeadline(deadline(d.each)); err != nil {
		return 0, err
	}
	return d.Conn.Read(b)
}

func (d *deadlined) Write(b []byte) (int, error) {
	if err := d.SetWriteDeadline(deadline(d.each)); err != nil {
		return 0, err
	}
	return d.Conn.Write(b)
}

// deadline is the system's clock, which deadlines of connections are measured by.
func deadline(after time.Duration) time.Time { return time.Now().Add(after) }

type station struct {
	c    *sftp.Client
	root string
}

func (s *station) at(name string) string { return path.Join(s.root, name) }

func (s *station) Mkdir(name string) error {
	if there, err := s.Exists(name); err != nil || there {
		return err
	}
	return s.c.Mkdir(s.at(name))
}

func (s *station) Create(name string, body []byte) error {
	f, err := s.c.OpenFile(s.at(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	if err == nil {
		// Not every server can be told to write to its disk. One that can and fails has not got the file.
		if _, can := s.c.HasExtension("fsync@openssh.com"); can {
			err = f.Sync()
		}
	}
	return errors.Join(err, f.Close())
}

// Move renames in one step where the server can; the older operation links and unlinks, on servers of OpenSSH's kind.
func (s *station) Move(from, to string) error {
	if there, err := s.Exists(to); err != nil || there {
		return errors.Join(err, fs.ErrExist)
	}
	if _, can := s.c.HasExtension("posix-rename@openssh.com"); can {
		return s.c.PosixRename(s.at(from), s.at(to))
	}
	return s.c.Rename(s.at(from), s.at(to))
}

func (s *station) Exists(name string) (bool, error) {
	_, err := s.c.Lstat(s.at(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (s *station) List(name string) ([]fs.FileInfo, error) { return s.c.ReadDir(s.at(name)) }

func (s *station) Open(name string) (io.ReadCloser, error) { return s.c.Open(s.at(name)) }
