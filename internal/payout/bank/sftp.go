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

// SFTP has the address and credentials of a bank's server.
type SFTP struct {
	Address string // host:port
	User    string
	Root    string // directory of the drop; "" means the user's home directory
	Key     []byte // private key of the user, in PEM
	// HostKey is the only accepted host key, as a line of a known_hosts or public key file.
	HostKey []byte
	Timeout time.Duration // limit for connecting and for each read and write; default 30 s
}

// OpenSFTP returns a drop in a directory of an SFTP server. It checks the keys but does not connect, so that the
// program starts while the server is down.
func OpenSFTP(s SFTP) (*Drop, error) {
	if s.Address == "" || s.User == "" {
		return nil, errors.New("bank sftp: address and user are required")
	}
	signer, err := ssh.ParsePrivateKey(s.Key)
	if err != nil {
		return nil, fmt.Errorf("bank sftp: private key: %w", err)
	}
	host, err := hostKey(s.HostKey)
	if err != nil {
		return nil, fmt.Errorf("bank sftp: host key: %w", err)
	}
	if s.Timeout == 0 {
		s.Timeout = 30 * time.Second
	}
	return &Drop{name: "sftp://" + s.User + "@" + s.Address + "/" + s.Root, files: &remoteFiles{s, &ssh.ClientConfig{
		User: s.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.FixedHostKey(host),
		HostKeyAlgorithms: algorithms(host), Timeout: s.Timeout,
	}}}, nil
}

// algorithms returns the signature algorithms of the expected host key: a server may have several keys.
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

type remoteFiles struct {
	s      SFTP
	config *ssh.ClientConfig
}

// do opens a connection for each use, because banks close idle connections and files are rare.
func (r *remoteFiles) do(ctx context.Context, fn func(dir) error) error {
	dialer := net.Dialer{Timeout: r.s.Timeout}
	conn, err := dialer.DialContext(ctx, "tcp", r.s.Address)
	if err != nil {
		return fmt.Errorf("bank sftp: %w", err)
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	watched := &timeoutConn{conn, r.s.Timeout}
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
	return fn(&remoteDir{client, r.s.Root})
}

// timeoutConn limits the time of each read and write, so that a server that hangs does not block a worker.
type timeoutConn struct {
	net.Conn
	each time.Duration
}

func (d *timeoutConn) Read(b []byte) (int, error) {
	if err := d.SetReadDeadline(deadline(d.each)); err != nil {
		return 0, err
	}
	return d.Conn.Read(b)
}

func (d *timeoutConn) Write(b []byte) (int, error) {
	if err := d.SetWriteDeadline(deadline(d.each)); err != nil {
		return 0, err
	}
	return d.Conn.Write(b)
}

// deadline uses the system clock, as deadlines of connections require.
func deadline(after time.Duration) time.Time { return time.Now().Add(after) }

type remoteDir struct {
	c    *sftp.Client
	root string
}

func (s *remoteDir) at(name string) string { return path.Join(s.root, name) }

func (s *remoteDir) Mkdir(name string) error {
	if there, err := s.Exists(name); err != nil || there {
		return err
	}
	return s.c.Mkdir(s.at(name))
}

func (s *remoteDir) Create(name string, body []byte) error {
	f, err := s.c.OpenFile(s.at(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	if err == nil {
		// Not every server supports fsync. If a server does and fsync fails, the file may not be on disk.
		if _, can := s.c.HasExtension("fsync@openssh.com"); can {
			err = f.Sync()
		}
	}
	return errors.Join(err, f.Close())
}

// Move renames atomically if the server supports posix-rename. The older rename operation may link and unlink on
// OpenSSH servers.
func (s *remoteDir) Move(from, to string) error {
	if there, err := s.Exists(to); err != nil || there {
		return errors.Join(err, fs.ErrExist)
	}
	if _, can := s.c.HasExtension("posix-rename@openssh.com"); can {
		return s.c.PosixRename(s.at(from), s.at(to))
	}
	return s.c.Rename(s.at(from), s.at(to))
}

func (s *remoteDir) Exists(name string) (bool, error) {
	_, err := s.c.Lstat(s.at(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (s *remoteDir) List(name string) ([]fs.FileInfo, error) { return s.c.ReadDir(s.at(name)) }

func (s *remoteDir) Open(name string) (io.ReadCloser, error) { return s.c.Open(s.at(name)) }
