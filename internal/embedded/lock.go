package embedded

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ErrInUse says that another process works on a state folder.
var ErrInUse = errors.New("in use")

// Lock is the right to work on a state folder; the end of the process gives it back in any case.
type Lock struct{ file *os.File }

// LockFolder takes a state folder, which must exist. If another process has it, the error is ErrInUse and names its
// pid. The lock isn't inherited by child processes.
func LockFolder(dir string) (*Lock, error) {
	path := filepath.Join(dir, "lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer file.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		holder := "another process"
		if content, err := io.ReadAll(io.LimitReader(file, 32)); err == nil {
			if pid, err := strconv.Atoi(strings.TrimSpace(string(content))); err == nil {
				holder = fmt.Sprintf("pid %d", pid)
			}
		}
		return nil, fmt.Errorf("folder %s is %w by %s; stop that one first, or choose another folder", dir, ErrInUse, holder)
	}
	// The pid is for people only, so a failure to write it is none.
	if file.Truncate(0) == nil {
		_, _ = file.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
	return &Lock{file}, nil
}

// Release gives the folder back. The file stays: removing it would let two processes lock two files of one name.
func (l *Lock) Release() error { return l.file.Close() }
