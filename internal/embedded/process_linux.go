package embedded

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

func stopWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGINT }

// commandOf returns the command line of a running process; false if there is none (or only a zombie).
func commandOf(pid int) ([]string, bool) {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil || len(line) == 0 {
		return nil, false
	}
	var words []string
	for word := range bytes.SplitSeq(bytes.TrimRight(line, "\x00"), []byte{0}) {
		words = append(words, string(word))
	}
	return words, true
}
