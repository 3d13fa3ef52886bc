package embedded

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// PostgresConfig says where a Postgres lives.
type PostgresConfig struct {
	Dir        string       // the state folder; made if need be
	Binaries   string       // where fetched binaries are kept. Default Dir/binaries
	Repository string       // the Maven repository that they come from. Default Maven Central
	Progress   func(string) // hears one line at a time of what takes long; nil: nobody
	Volatile   bool         // no fsync: for tests. What was committed may be lost with the power, not with a kill
}

// Validate checks the configuration.
func (c PostgresConfig) Validate() error {
	if c.Dir == "" {
		return errors.New("embedded Postgres: no folder given")
	}
	if c.Repository != "" {
		u, err := url.Parse(c.Repository)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return fmt.Errorf("embedded Postgres: %q is no URL of a Maven repository", c.Repository)
		}
	}
	return nil
}

func (c PostgresConfig) withDefaults() (PostgresConfig, error) {
	var err error
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return c, err
	}
	if c.Binaries == "" {
		c.Binaries = filepath.Join(c.Dir, "binaries")
	}
	if c.Repository == "" {
		c.Repository = mavenCentral
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	return c, nil
}

const (
	superuser    = "millrace" // of the database, whatever the account of the process
	database     = "millrace"
	socketPort   = "5432"                             // only names the socket; nothing listens on TCP
	longestPath  = 107 - len("/.s.PGSQL."+socketPort) // of a socket's folder: the system's limit
	startTimeout = 60 * time.Second                   // recovery after a kill included
	stopTimeout  = 30 * time.Second
)

// Postgres is a server of our own. Only this process's user (or root) can reach it, over a Unix socket. If it ends without
// having been told to (killed for its memory, for instance), it is started again.
type Postgres struct {
	lock    *Lock
	stop    context.CancelFunc // ends keep
	kept    chan struct{}      // closed when it has
	sockets string             // folder of the socket
	scratch string             // of it in the system's temporary folder, to remove; or empty
	version string
	adopted bool

	// Of keep, until it has ended.
	child *child // nil: adopted
	pid   int    // of an adopted one
}

// StartPostgres starts a Postgres over the data in cfg.Dir, or adopts the one that a killed process has left running
// there. Without binaries on the machine they are fetched once. It returns when the server takes connections.
func StartPostgres(ctx context.Context, cfg PostgresConfig) (*Postgres, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("embedded Postgres: %w", err)
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("embedded Postgres: %w", err)
	}
	lock, err := LockFolder(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("embedded Postgres: %w", err)
	}
	p := &Postgres{lock: lock}
	if err := p.start(ctx, cfg); err != nil {
		_ = lock.Release()
		return nil, fmt.Errorf("embedded Postgres in %s: %w", cfg.Dir, err)
	}
	p.adopted = p.child == nil
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop, p.kept = stop, make(chan struct{})
	go p.keep(keeping, cfg)
	return p, nil
}

func (p *Postgres) start(ctx context.Context, cfg PostgresConfig) error {
	data := filepath.Join(cfg.Dir, "data")
	as, err := serverAccount(data)
	if err != nil {
		return err
	}
	left, err := awaitLeftover(ctx, data)
	if err != nil {
		return err
	}
	if left != nil {
		p.child, p.pid = nil, left.pid
		if p.sockets == "" {
			p.sockets = left.sockets
		}
		return p.prepare(ctx)
	}
	bin, err := binariesFor(ctx, cfg, data, as)
	if err != nil {
		return err
	}
	if err := initialise(ctx, cfg, bin, as, data); err != nil {
		return err
	}
	if p.sockets == "" {
		p.sockets, p.scratch = socketFolder(cfg.Dir)
	}
	if err := as.ownFolder(p.sockets); err != nil {
		return fmt.Errorf("folder of the socket: %w", err)
	}
	if err := p.launch(ctx, cfg, bin, as, data); err != nil {
		return err
	}
	if err := p.prepare(ctx); err != nil {
		_ = p.halt()
		return err
	}
	return nil
}

// initialise makes the data folder, beside its place and then at once.
func initialise(ctx context.Context, cfg PostgresConfig, bin binaries, as account, data string) error {
	if _, err := os.Stat(data); err == nil {
		return nil
	}
	cfg.Progress("making a Postgres " + bin.version + " data folder in " + data)
	fresh := data + ".new"
	if err := os.RemoveAll(fresh); err != nil { // of a start that was killed
		return err
	}
	if err := as.ownFolder(fresh); err != nil {
		return err
	}
	arguments := []string{
		"--pgdata", fresh, "--username", superuser, "--auth", "trust", // the socket's folder is private
		"--encoding", "UTF8", "--locale", "C", "--no-instructions",
	}
	if cfg.Volatile {
		arguments = append(arguments, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin.dir, "initdb"), arguments...)
	cmd.Dir, cmd.Env = fresh, environment
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	c, err := spawn(cmd, as)
	if err == nil {
		<-c.exited
		err = c.err
	}
	if err != nil {
		return fmt.Errorf("initdb: %w: %s", err, lastLines(said.String(), 5))
	}
	return os.Rename(fresh, data)
}

// environment keeps this process's own out of the server's.
var environment = []string{"LC_ALL=C", "TZ=UTC", "PATH=/usr/bin:/bin"}

// launch starts the server. A predecessor that is still going down holds the folder or the shared memory: wait for it.
func (p *Postgres) launch(ctx context.Context, cfg PostgresConfig, bin binaries, as account, data string) error {
	settings := []string{
		"listen_addresses=", "unix_socket_directories=" + p.sockets, "unix_socket_permissions=0700", "port=" + socketPort,
		"jit=off", "timezone=UTC", "log_timezone=UTC", "logging_collector=off", "max_connections=200",
		"shared_buffers=64MB",
	}
	if cfg.Volatile {
		settings = append(settings, "fsync=off", "full_page_writes=off")
	}
	arguments := []string{"-D", data}
	for _, s := range settings {
		arguments = append(arguments, "-c", s)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		said, err := os.OpenFile(filepath.Join(cfg.Dir, "postgres.log"), os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o644)
		if err != nil {
			return err
		}
		cmd := exec.Command(filepath.Join(bin.dir, "postgres"), arguments...)
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = data, environment, said, said
		p.child, err = spawn(cmd, as)
		_ = said.Close() // the child has its own
		if err != nil {
			return err
		}
		ended, err := p.await(ctx)
		if err == nil {
			return nil
		}
		if !ended {
			_ = p.halt()
			return err
		}
		log, _ := os.ReadFile(said.Name()) // for the message only
		busy := strings.Contains(string(log), "lock file") && strings.Contains(string(log), "already exists") ||
			strings.Contains(string(log), "shared memory block") && strings.Contains(string(log), "still in use")
		if !busy || time.Now().After(deadline) {
			return fmt.Errorf("the server ended (%w) and said: %s", err, lastLines(string(log), 5))
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// await waits until the server takes connections. ended says that it is no more, and err then how it ended.
func (p *Postgres) await(ctx context.Context) (ended bool, err error) {
	for deadline := time.Now().Add(startTimeout); ; {
		if err = ping(ctx, p.sockets); err == nil {
			return false, nil
		}
		select {
		case <-p.child.exited:
			return true, errors.Join(errors.New("before it took connections"), p.child.err)
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return false, fmt.Errorf("it took no connection for %s: %w", startTimeout, err)
		}
	}
}

// URL is where to connect: postgres://…
func (p *Postgres) URL() string { return urlOf(p.sockets, database) }

// Version is the server's, for instance "15.18".
func (p *Postgres) Version() string { return p.version }

// Adopted says whether the server was running already, left by a process that was killed.
func (p *Postgres) Adopted() bool { return p.adopted }

// Stop ends the server after its connections have been cut, and gives the folder back.
func (p *Postgres) Stop() error {
	p.stop()
	<-p.kept
	return errors.Join(p.halt(), p.lock.Release())
}

func (p *Postgres) halt() error {
	pid := p.pid
	if p.child != nil {
		pid = p.child.cmd.Process.Pid
	}
	gone := func() bool {
		if p.child == nil {
			_, running := commandOf(pid)
			return !running
		}
		select {
		case <-p.child.exited:
			return true
		default:
			return false
		}
	}
	// SIGINT: a fast shutdown. SIGQUIT: at once, with recovery at the next start.
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT} {
		if gone() {
			break
		}
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stopping Postgres, pid %d: %w", pid, err)
		}
		for deadline := time.Now().Add(stopTimeout); !gone() && time.Now().Before(deadline); {
			time.Sleep(5 * time.Millisecond)
		}
	}
	if !gone() {
		return fmt.Errorf("stopping Postgres: pid %d doesn't end", pid)
	}
	if p.scratch != "" {
		_ = os.Remove(p.scratch) // the next start makes it again
	}
	return nil
}

// socketFolder is where the socket stands: in the state folder, or where its path would be too long for a socket,
// in the system's temporary folder under a name made of it.
func socketFolder(dir string) (sockets, scratch string) {
	sockets = filepath.Join(dir, "run")
	if len(sockets) > longestPath || strings.ContainsAny(sockets, `,"`) {
		sum := sha256.Sum256([]byte(dir))
		sockets = filepath.Join(os.TempDir(), "millrace-"+hex.EncodeToString(sum[:6]))
		if len(sockets) > longestPath {
			sockets = filepath.Join("/tmp", filepath.Base(sockets))
		}
		scratch = sockets
	}
	return sockets, scratch
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], " / ")
}
