//go:build !linux

package embedded

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// stopWithParent: only Linux can do it. Elsewhere Postgres outlives a kill of this process, and is adopted.
func stopWithParent(*syscall.SysProcAttr) {}

// commandOf returns the command line of a running process; false if there is none.
func commandOf(pid int) ([]string, bool) {
	line, err := exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	words := strings.Fields(string(line))
	return words, err == nil && len(words) > 0
}
