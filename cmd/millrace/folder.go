package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"millrace/internal/embedded"
)

// folderEntries is everything that stands in a data folder of ours.
var folderEntries = []string{"lock", "secrets.json", clientFile, "kafka", "objects", "postgres", demoFolder, "weights"}

// makeFolder makes the data folder. One that holds somebody else's files is refused: nothing of ours is strewn between
// them, and a later --reset can't take them for ours.
func makeFolder(dir string) error {
	foreign, err := foreignEntry(dir)
	if err != nil {
		return err
	}
	_, err = os.Stat(filepath.Join(dir, "lock"))
	if errors.Is(err, fs.ErrNotExist) && foreign != "" {
		return usagef("--data %s: there is %s already, so it is no data folder of millrace; choose another one", dir, foreign)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return folderTrouble(dir, err)
	}
	return nil
}

// lockFolder takes the data folder for this process.
func lockFolder(dir string) (*embedded.Lock, error) {
	lock, err := embedded.LockFolder(dir)
	if err != nil {
		return nil, folderTrouble(dir, err)
	}
	return lock, nil
}

// emptyFolder deletes a data folder of ours, and refuses to delete anything else, or one that is in use.
func emptyFolder(ctx context.Context, dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && len(entries) == 0) {
		return nil
	}
	foreign, err := foreignEntry(dir)
	if err != nil {
		return err
	}
	if foreign != "" {
		return usagef("--reset: %s holds %s, which is not millrace's; choose another --data, or delete it yourself", dir, foreign)
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return err
	}
	defer lock.Release() //nolint:errcheck // the folder is gone
	if _, err := os.Stat(filepath.Join(dir, demoFolder)); err == nil {
		if err := emptyFolder(ctx, filepath.Join(dir, demoFolder)); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "postgres")); err == nil {
		// One that a killed process left running is adopted, and stopped.
		pg, err := embedded.StartPostgres(ctx, embedded.PostgresConfig{Dir: filepath.Join(dir, "postgres")})
		if err != nil {
			return err
		}
		if err := pg.Stop(); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}

// foreignEntry is the first thing in a folder that isn't ours; empty if there is none.
func foreignEntry(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", folderTrouble(dir, err)
	}
	for _, e := range entries {
		if !slices.Contains(folderEntries, e.Name()) && !strings.HasPrefix(e.Name(), ".new-") {
			return e.Name(), nil
		}
	}
	return "", nil
}

// folderTrouble says what to do about a data folder that can't be used.
func folderTrouble(dir string, err error) error {
	switch {
	case errors.Is(err, embedded.ErrInUse):
		return err
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("data folder %s: user %d may not write there (%w); choose another --data, or give the folder to that user", dir, os.Geteuid(), err)
	}
	return fmt.Errorf("data folder %s: %w; choose another --data", dir, err)
}
