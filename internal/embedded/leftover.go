package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// A server that is told to stop by our death stops answering well within this.
	steadyFor = 500 * time.Millisecond
	// One that recovers, or comes down with much to write, may take so long.
	leftoverTimeout = 30 * time.Second
)

// leftover is a server that a process before us has started on the same data folder.
type leftover struct {
	pid     int
	sockets string
	ready   bool // by its own account
}

// awaitLeftover waits until it's clear whether a server runs on the data folder: nil, if none does (any more). One that
// answers steadily is adopted; one that is going down, since its parent was killed, is waited for.
//
// postmaster.pid is removed only if its pid is surely no Postgres on this folder: pids are used again, soon in a
// container, and Postgres itself would then refuse to start. The lock on the state folder is held here.
func awaitLeftover(ctx context.Context, data string) (*leftover, error) {
	file := filepath.Join(data, "postmaster.pid")
	var steadySince time.Time
	for deadline := time.Now().Add(leftoverTimeout); ; {
		l, err := readPostmaster(file)
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		command, running := commandOf(l.pid)
		if !running {
			return nil, nil // Postgres clears the file away by itself
		}
		if !mayServe(command, data) {
			return nil, os.Remove(file)
		}
		if l.ready && ping(ctx, l.sockets) == nil {
			if steadySince.IsZero() {
				steadySince = time.Now()
			}
			if time.Since(steadySince) >= steadyFor {
				return &l, nil
			}
		} else {
			steadySince = time.Time{}
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("a Postgres, pid %d, runs on %s and neither takes connections nor ends; stop it (kill -INT %d)",
				l.pid, data, l.pid)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// readPostmaster reads postmaster.pid: pid, data folder, start, port, sockets' folder, address, shared memory, status.
func readPostmaster(path string) (leftover, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return leftover{}, err
	}
	lines := strings.Split(string(content), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 0 {
		return leftover{}, fmt.Errorf("%s begins with %q, which is no pid; if no Postgres runs on this folder, remove the file", path, lines[0])
	}
	l := leftover{pid: pid}
	if len(lines) >= 8 {
		l.sockets = lines[4]
		l.ready = strings.TrimSpace(lines[7]) == "ready"
	}
	return l, nil
}

// mayServe says whether a command line may be that of a Postgres server on this data folder.
func mayServe(command []string, data string) bool {
	if name := filepath.Base(command[0]); name != "postgres" && name != "postmaster" {
		return false
	}
	i := slices.Index(command, "-D")
	if i < 0 || i+1 >= len(command) {
		return true // it doesn't say; so don't touch its file
	}
	ours, err := os.Stat(data)
	if err != nil {
		return true
	}
	theirs, err := os.Stat(command[i+1])
	return err == nil && os.SameFile(ours, theirs)
}
