package embedded

import (
	"os/exec"
	"runtime"
	"syscall"
)

// child is a started process.
type child struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended
	err    error         // how; read after exited
}

// spawn starts a command as an account, in a process group of its own: a Ctrl-C is for us, and we stop it in order.
// If this process is killed, the child gets a SIGINT where the system can do that.
func spawn(cmd *exec.Cmd, a account) (*child, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if a.switched {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	if a.mapped {
		mapToNobody(cmd.SysProcAttr)
	}
	stopWithParent(cmd.SysProcAttr)
	c := &child{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The parent of which the child hears is this thread, so it must live as long as the child.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
			close(c.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}
