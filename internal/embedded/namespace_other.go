//go:build !linux

package embedded

import "syscall"

func mapToNobody(*syscall.SysProcAttr) {}

func canMap() bool { return false }
