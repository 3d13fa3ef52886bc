package embedded

import (
	"os/exec"
	"syscall"
)

// nobody is the account of which every system has an entry in its passwd file; Postgres looks itself up there.
const nobody = 65534

// mapToNobody makes a process that is root outside appear as nobody to itself: a user namespace.
func mapToNobody(attributes *syscall.SysProcAttr) {
	attributes.Cloneflags |= syscall.CLONE_NEWUSER
	attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: 0, Size: 1}}
	attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: 0, Size: 1}}
}

// canMap says whether this system lets us: many containers don't.
func canMap() bool {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	mapToNobody(cmd.SysProcAttr)
	return cmd.Run() == nil
}
