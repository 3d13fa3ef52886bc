package embedded

import (
	"archive/tar"
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"millrace/internal/embedded/xz"
)

// Where a machine has no Postgres, its binaries come from Maven Central: io.zonky.test.postgres, Apache-2.0, what other
// embedders fetch as well. A new release means new digests, of all four.
const (
	mavenCentral   = "https://repo1.maven.org/maven2"
	fetchedVersion = "18.6"
	fetchedRelease = "18.6.0"
)

type archive struct{ name, sha256 string }

var archives = map[string]archive{
	"linux/amd64":  {"linux-amd64", "008ee189eaa7ca2b58bd01dd950291e638b998392cf982297acd4779ec898ac1"},
	"linux/arm64":  {"linux-arm64v8", "5f54e016723afa6213925a8acb939bac52944b1d348f65c7a20f0cd2928c31be"},
	"darwin/amd64": {"darwin-amd64", "690941008aac9ee360820fde9bb7870a4f3dcac5e9e2f9e45e42333a436ad0f9"},
	"darwin/arm64": {"darwin-arm64v8", "8f6ed6f38195b50a40712ada8b2a12060b6193c1a6977a6eb5cff053bb5a1b89"},
}

const (
	maxArchive  = 256 << 20 // bytes that a repository may send
	maxUnpacked = 1 << 30
	// A repository that says nothing for so long is away.
	fetchTimeout = 30 * time.Second
)

func (a archive) url(repository string) string {
	artifact := "embedded-postgres-binaries-" + a.name
	return fmt.Sprintf("%s/io/zonky/test/postgres/%s/%s/%s-%s.jar",
		strings.TrimRight(repository, "/"), artifact, fetchedRelease, artifact, fetchedRelease)
}

// binariesFor finds binaries that suit the data folder, on the machine or fetched.
func binariesFor(ctx context.Context, cfg PostgresConfig, data string, as account) (binaries, error) {
	major := 0
	content, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	switch {
	case err == nil:
		if major, err = strconv.Atoi(strings.TrimSpace(string(content))); err != nil {
			return binaries{}, fmt.Errorf("%s/PG_VERSION: %w", data, err)
		}
	case !errors.Is(err, os.ErrNotExist):
		return binaries{}, err
	}
	target := filepath.Join(cfg.Binaries, "postgres-"+fetchedRelease)
	bin, err := findBinaries(ctx, major, filepath.Join(target, "bin"))
	if errors.Is(err, errNoBinaries) {
		if fetchedMajor, _, _ := strings.Cut(fetchedVersion, "."); major != 0 && strconv.Itoa(major) != fetchedMajor {
			return binaries{}, fmt.Errorf("the data folder %s was made by Postgres %d, of which there are no binaries here: "+
				"install it, or begin anew in another folder", data, major)
		}
		bin, err = fetchBinaries(ctx, cfg, target)
	}
	if err != nil {
		return binaries{}, err
	}
	if err := as.mayEnter(bin.dir); err != nil {
		return binaries{}, fmt.Errorf("the binaries of Postgres: %w", err)
	}
	return bin, nil
}

// fetchBinaries fetches, verifies and unpacks binaries into target, whole or not at all.
func fetchBinaries(ctx context.Context, cfg PostgresConfig, target string) (binaries, error) {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	a, ok := archives[platform]
	if !ok {
		return binaries{}, fmt.Errorf("%w, and none to fetch for %s: install Postgres %d or newer, or give a running one's URL",
			errNoBinaries, platform, oldestMajor)
	}
	if err := os.MkdirAll(cfg.Binaries, 0o755); err != nil {
		return binaries{}, err
	}
	source := a.url(cfg.Repository)
	cfg.Progress(fmt.Sprintf("%s: fetching Postgres %s from %s", errNoBinaries, fetchedVersion, source))
	jar := target + ".jar"
	defer os.Remove(jar) //nolint:errcheck // it may never have been made
	if err := download(ctx, source, jar, a.sha256, cfg.Progress); err != nil {
		return binaries{}, fmt.Errorf("fetching Postgres from %s: %w; install Postgres %d or newer, or give a running one's URL",
			source, err, oldestMajor)
	}
	cfg.Progress("unpacking Postgres " + fetchedVersion + " into " + target)
	fresh := target + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return binaries{}, err
	}
	if err := unpack(jar, fresh); err != nil {
		return binaries{}, fmt.Errorf("unpacking %s: %w", source, err)
	}
	if err := os.RemoveAll(target); err != nil { // it had no binaries that run
		return binaries{}, err
	}
	if err := os.Rename(fresh, target); err != nil {
		return binaries{}, err
	}
	bin, err := inspect(ctx, filepath.Join(target, "bin"))
	if err != nil {
		return binaries{}, fmt.Errorf("the fetched Postgres %s does not run here (%w): install Postgres %d or newer, or give a running one's URL",
			fetchedVersion, err, oldestMajor)
	}
	return bin, nil
}

// download writes what it gets to a file, and fails if that isn't what the digest says.
func download(ctx context.Context, source, path, digest string, progress func(string)) error {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: fetchTimeout}).DialContext
	transport.ResponseHeaderTimeout = fetchTimeout
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, source, nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the repository answers %s", response.Status)
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	silence := time.AfterFunc(fetchTimeout, cancel)
	defer silence.Stop()
	sum := sha256.New()
	report := &reporter{total: response.ContentLength, progress: progress, last: time.Now(), heard: func() { silence.Reset(fetchTimeout) }}
	n, err := io.Copy(io.MultiWriter(file, sum, report), io.LimitReader(response.Body, maxArchive+1))
	if err != nil {
		return err
	}
	if n > maxArchive {
		return fmt.Errorf("it sends more than %d bytes", int64(maxArchive))
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != digest {
		return fmt.Errorf("what came has the SHA-256 %s, not %s: it is not what was released", got, digest)
	}
	return file.Close()
}

// reporter says how far a download is, every two seconds.
type reporter struct {
	done, total int64
	last        time.Time
	progress    func(string)
	heard       func()
}

func (r *reporter) Write(p []byte) (int, error) {
	r.heard()
	r.done += int64(len(p))
	if now := time.Now(); now.Sub(r.last) >= 2*time.Second {
		r.last = now
		if r.total > 0 {
			r.progress(fmt.Sprintf("fetching Postgres: %.1f of %.1f MB", float64(r.done)/1e6, float64(r.total)/1e6))
		} else {
			r.progress(fmt.Sprintf("fetching Postgres: %.1f MB", float64(r.done)/1e6))
		}
	}
	return len(p), nil
}

// unpack unpacks the tar.xz inside of a jar into a new folder. Nothing gets outside of it.
func unpack(jar, dir string) error {
	z, err := zip.OpenReader(jar)
	if err != nil {
		return err
	}
	defer z.Close()
	for _, f := range z.File {
		if filepath.Ext(f.Name) != ".txz" {
			continue
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return err
		}
		defer root.Close()
		packed, err := f.Open()
		if err != nil {
			return err
		}
		defer packed.Close()
		plain, err := xz.NewReader(packed)
		if err != nil {
			return err
		}
		return untar(io.LimitReader(plain, maxUnpacked), root)
	}
	return errors.New("there is no .txz in it")
}

func untar(r io.Reader, root *os.Root) error {
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := filepath.Clean(h.Name)
		if parent := filepath.Dir(name); parent != "." {
			if err := root.MkdirAll(parent, 0o755); err != nil {
				return err
			}
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(name, 0o755)
		case tar.TypeSymlink:
			err = root.Symlink(h.Linkname, name)
		case tar.TypeReg:
			err = writeFile(root, name, archive, os.FileMode(h.Mode)&0o755|0o644)
		default:
			err = fmt.Errorf("%s: an entry of type %q", h.Name, h.Typeflag)
		}
		if err != nil {
			return err
		}
	}
}

func writeFile(root *os.Root, name string, content io.Reader, mode os.FileMode) error {
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := io.Copy(file, content); err != nil {
		return err
	}
	return file.Close()
}
