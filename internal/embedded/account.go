package embedded

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is whom Postgres runs as: this process's user, or another one where this is root, as which it refuses to run.
type account struct {
	name     string
	uid, gid uint32
	switched bool // to another user than this process's
	mapped   bool // root outside, nobody to itself
}

// rootMapped keeps root's access to the files, and hides from Postgres that it is root's.
var rootMapped = account{name: "root, as nobody to itself", mapped: true}

// serverAccount chooses the account that serves data, a data folder that may not be there yet.
func serverAccount(data string) (account, error) {
	if os.Geteuid() != 0 {
		return account{name: "uid " + strconv.Itoa(os.Geteuid()), uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}, nil
	}
	if info, err := os.Stat(data); err == nil {
		// The owner has the first say. Postgres wants an entry in the passwd file, so a bare number won't do.
		owner := info.Sys().(*syscall.Stat_t).Uid
		if owner == 0 {
			if !canMap() {
				return account{}, fmt.Errorf("the data folder %s belongs to root, who may not run Postgres, and this system "+
					"allows no user namespaces; give the folder to another user (chown -R postgres)", data)
			}
			return rootMapped, nil
		}
		u, err := user.LookupId(strconv.Itoa(int(owner)))
		if err != nil {
			return account{}, fmt.Errorf("the data folder %s belongs to uid %d, which has no account here: %w", data, owner, err)
		}
		a, err := accountOf(u)
		if err != nil {
			return account{}, err
		}
		return a, a.mayEnter(filepath.Dir(data))
	}
	a, err := serviceAccount()
	if err == nil {
		err = a.mayEnter(filepath.Dir(data))
	}
	if err != nil && canMap() {
		return rootMapped, nil
	}
	return a, err
}

// serviceAccount is an account to switch to.
func serviceAccount() (account, error) {
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			return accountOf(u)
		}
	}
	return account{}, fmt.Errorf("root may not run Postgres, and there is neither a user postgres nor nobody: " +
		"run this as an ordinary user, or give a running Postgres's URL")
}

func accountOf(u *user.User) (account, error) {
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("user %s: uid %q: %w", u.Username, u.Uid, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("user %s: gid %q: %w", u.Username, u.Gid, err)
	}
	return account{name: u.Username, uid: uint32(uid), gid: uint32(gid), switched: true}, nil
}

// mayEnter checks that the account can reach dir: Postgres's own message would only say "permission denied" about
// something else.
func (a account) mayEnter(dir string) error {
	if !a.switched {
		return nil
	}
	path, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	for ; ; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		enter := os.FileMode(0o001)
		switch {
		case stat.Uid == a.uid:
			enter = 0o100
		case stat.Gid == a.gid:
			enter = 0o010
		}
		if info.Mode()&enter == 0 {
			return fmt.Errorf("root may not run Postgres, so it runs as user %s, who can't enter %s (%s) and so not %s: "+
				"choose a folder elsewhere (/var/lib/millrace, for instance), open that one (chmod o+x), or run as an ordinary user",
				a.name, path, info.Mode(), dir)
		}
		if path == filepath.Dir(path) {
			return nil
		}
	}
}

// ownFolder makes a folder that belongs to the account alone.
func (a account) ownFolder(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat := info.Sys().(*syscall.Stat_t)
	if a.switched && stat.Uid == 0 {
		if err := os.Lchown(dir, int(a.uid), int(a.gid)); err != nil {
			return err
		}
	} else if stat.Uid != a.uid {
		return fmt.Errorf("%s belongs to uid %d, not to %s, as whom Postgres would run", dir, stat.Uid, a.name)
	}
	if !info.IsDir() || info.Mode().Perm() != 0o700 {
		return fmt.Errorf("%s is not a private folder (%s); remove it", dir, info.Mode())
	}
	return nil
}
