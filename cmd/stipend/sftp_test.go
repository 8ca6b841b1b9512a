package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/testkit"
)

// The service submits its files to a bank's SFTP server and reads the responses. It refuses a server with another
// host key. It submits each file once, although the server fails while the file is written, before it is renamed, and
// after that. It reads a response only when it is complete.
func TestTheServiceAndABanksServer(t *testing.T) {
	dir := t.TempDir()
	s := openBankServer(t, filepath.Join(dir, "bank"))
	desk := filepath.Join(dir, "desk")
	_, teller, err := bank.OpenSandbox(desk)
	testkit.Check(t, err)
	accounts, err := json.Marshal([]bank.Account{{ID: "eur", Currency: money.EUR, Format: bank.FormatPain,
		Name:   "Example Payments GmbH",
		Number: "DE89370400440532013000", Town: "Berlin", Country: "DE",
		Calendar: bank.Target, CutOff: "15:00", Zone: "Europe/Berlin"}})
	testkit.Check(t, err)
	for name, file := range map[string][]byte{"STIPEND_BANK_ACCOUNTS": accounts, "STIPEND_BANK_SFTP_KEY_FILE": s.user,
		"STIPEND_BANK_SFTP_HOST_KEY_FILE": s.hostKey} {
		path := filepath.Join(dir, name)
		testkit.Check(t, os.WriteFile(path, file, 0o600))
		t.Setenv(name, path)
	}
	t.Setenv("STIPEND_BANK_SFTP", "sftp://stipend@"+s.address+"//")
	w := &world{t: t, binary: build(t), url: "sqlite:" + filepath.Join(dir, "stipend.db"), paid: map[string]bool{},
		created: map[int]payroll{}}
	w.start(time.Hour)
	const iban = "DE02120300000000202051"
	w.payees = []payee{w.hire(money.EUR, iban, map[string]any{"account_holder_name": "Ada Example",
		"account_holder_type": "individual", "iban": iban})}
	testkit.Check(t, w.create(0))
	if err := w.call(http.MethodPost, "/api/sandbox/deposit", "", map[string]any{"payroll_id": w.created[0].PayrollID,
		"kind": "exact"}, &struct{}{}); err != nil {
		t.Fatal(err)
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		w.until(what, func() bool { w.takeOver(); return ok() })
	}
	until("another server was refused", func() bool { return s.count("refused") > 0 })
	if all := s.files("out"); len(all) != 0 {
		t.Errorf("a server that nobody knows has %v", all)
	}
	s.unmask()
	until("the file is there", func() bool { return slices.Contains(s.files("out"), "S0000001.xml") })
	if torn, before, after := s.count("torn"), s.count("down before the move"),
		s.count("down after the move"); torn != 1 || before != 1 || after != 1 {
		t.Errorf("the server broke down %d, %d, %d times", torn, before, after)
	}
	body, err := os.ReadFile(filepath.Join(s.root, "out", "S0000001.xml"))
	if err != nil || strings.Count(string(body), "<IBAN>"+iban) != 1 || !strings.HasSuffix(strings.TrimSpace(string(body)),
		"</Document>") {
		t.Errorf("%v\n%s", err, body)
	}

	// The bank accepts the file and answers. Its responses are incomplete at first.
	testkit.Check(t, os.Rename(filepath.Join(s.root, "out", "S0000001.xml"), filepath.Join(desk, "out",
		"S0000001.xml")))
	testkit.Check(t, teller.ProcessFiles(time.Now()))
	names, err := filepath.Glob(filepath.Join(desk, "in", "*.xml"))
	if err != nil || len(names) != 3 {
		t.Fatal(names, err)
	}
	give := func(half int, how int) { // the bank continues to write its file, in whichever directory it is
		for _, name := range names {
			text, err := os.ReadFile(name)
			testkit.Check(t, err)
			f, err := os.OpenFile(filepath.Join(s.root, "in", filepath.Base(name)), os.O_WRONLY|how, 0o600)
			testkit.Check(t, err)
			_, err = f.Write([][]byte{text[:len(text)/2], text[len(text)/2:]}[half])
			testkit.Check(t, errors.Join(err, f.Close()))
		}
	}
	look := func(what string, ok func() bool) { // a new process reads responses at its start
		t.Helper()
		w.takeOver()
		w.kill()
		w.start(time.Hour)
		w.until(what, ok)
	}
	give(0, os.O_CREATE|os.O_EXCL)
	read := s.count("read")
	look("half of each answer was read", func() bool { return s.count("read") >= read+2 })
	give(1, os.O_APPEND)
	look("the payroll is fulfilled", w.fulfilled)
	w.until("the answers are put away", func() bool { return len(s.files("in")) == 0 })
	if all := s.files("out"); slices.ContainsFunc(all, func(name string) bool { return !strings.HasPrefix(name, ".") }) {
		t.Errorf("the bank would pay %v", all)
	}
	w.kill()
}

// bankServer is a bank's SFTP server. It shows a wrong host key until unmask is called, and then fails once at each
// step.
type bankServer struct {
	root, address string
	user, hostKey []byte // the client's private key, and the server's known_hosts line

	mu     sync.Mutex
	config *ssh.ServerConfig
	own    ssh.Signer
	did    map[string]int
}

func openBankServer(t *testing.T, root string) *bankServer {
	t.Helper()
	s := &bankServer{root: root, did: map[string]int{}}
	for _, part := range []string{"out", "taken", "in"} {
		testkit.Check(t, os.MkdirAll(filepath.Join(root, part), 0o700))
	}
	key := func() (ed25519.PrivateKey, ssh.Signer) {
		_, secret, err := ed25519.GenerateKey(rand.Reader)
		testkit.Check(t, err)
		signer, err := ssh.NewSignerFromKey(secret)
		testkit.Check(t, err)
		return secret, signer
	}
	secret, user := key()
	block, err := ssh.MarshalPrivateKey(secret, "")
	testkit.Check(t, err)
	_, stranger := key()
	_, s.own = key()
	s.user, s.hostKey = pem.EncodeToMemory(block), ssh.MarshalAuthorizedKey(s.own.PublicKey())
	s.config = &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if string(k.Marshal()) != string(user.PublicKey().Marshal()) {
			return nil, errors.New("who is that")
		}
		return nil, nil
	}}
	s.config.AddHostKey(stranger)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Check(t, err)
	s.address = l.Addr().String()
	var work sync.WaitGroup
	t.Cleanup(func() { l.Close(); work.Wait() })
	work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { s.serve(conn) })
		}
	})
	return s
}

func (s *bankServer) serve(conn net.Conn) {
	defer conn.Close()
	s.mu.Lock()
	config := *s.config
	s.mu.Unlock()
	_, channels, requests, err := ssh.NewServerConn(conn, &config)
	if err != nil {
		s.note("refused")
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
		at := &visit{s, conn}
		_ = sftp.NewRequestServer(channel, sftp.Handlers{FileGet: at, FilePut: at, FileCmd: at, FileList: at}).Serve()
		_ = channel.Close()
	}
}

// unmask makes the server show its own key.
func (s *bankServer) unmask() {
	s.mu.Lock()
	defer s.mu.Unlock()
	config := &ssh.ServerConfig{PublicKeyCallback: s.config.PublicKeyCallback}
	config.AddHostKey(s.own)
	s.config = config
}

// note counts an occurrence and returns the count.
func (s *bankServer) note(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.did[what]++
	return s.did[what]
}

// once reports whether something happens for the first time.
func (s *bankServer) once(what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.did[what] > 0 {
		return false
	}
	s.did[what] = 1
	return true
}

func (s *bankServer) count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.did[what]
}

func (s *bankServer) files(part string) (names []string) {
	all, _ := os.ReadDir(filepath.Join(s.root, part)) // the directory exists
	for _, f := range all {
		names = append(names, f.Name())
	}
	return names
}

// visit is one connection to the server.
type visit struct {
	*bankServer
	conn net.Conn
}

func (v *visit) at(path string) string { return filepath.Join(v.root, filepath.FromSlash(path)) }

// hangUp closes the connection, as a failing server does.
func (v *visit) hangUp() error {
	return errors.Join(errors.New("the server goes down"), v.conn.Close())
}

func (v *visit) Fileread(r *sftp.Request) (io.ReaderAt, error) {
	f, err := os.Open(v.at(r.Filepath))
	if err == nil && strings.HasPrefix(r.Filepath, "/in/") {
		v.note("read")
	}
	return f, err
}

func (v *visit) Filewrite(r *sftp.Request) (io.WriterAt, error) {
	f, err := os.OpenFile(v.at(r.Filepath), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil && v.once("torn") {
		return tornFile{f, v}, nil
	}
	return f, err
}

// tornFile stores half of what is written to it.
type tornFile struct {
	*os.File
	v *visit
}

func (f tornFile) WriteAt(b []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(b[:len(b)/2], off)
	return n, errors.Join(err, f.v.hangUp())
}

func (v *visit) Filecmd(r *sftp.Request) error {
	switch r.Method {
	case "Mkdir":
		return os.Mkdir(v.at(r.Filepath), 0o700)
	case "Rename", "PosixRename":
		out := strings.HasPrefix(r.Target, "/out/")
		if out && v.once("down before the move") {
			return v.hangUp()
		}
		err := os.Rename(v.at(r.Filepath), v.at(r.Target))
		if err == nil && out && v.once("down after the move") {
			return v.hangUp()
		}
		return err
	}
	return nil
}

func (v *visit) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	if r.Method != "List" {
		info, err := os.Lstat(v.at(r.Filepath))
		return infos{info}, err
	}
	entries, err := os.ReadDir(v.at(r.Filepath))
	var all infos
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			all = append(all, info)
		}
	}
	return all, err
}

type infos []os.FileInfo

func (all infos) ListAt(to []os.FileInfo, from int64) (int, error) {
	if from >= int64(len(all)) {
		return 0, io.EOF
	}
	n := copy(to, all[from:])
	if n < len(to) {
		return n, io.EOF
	}
	return n, nil
}
