package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"millrace/checkpoint"
	"millrace/checkpoint/candidate"
)

// CandidateCommand is the checkpoints that came out of cuts.
type CandidateCommand struct {
	Remote `embed:""`
	Submit CandidateSubmit `cmd:"" help:"Hand in the weights that were trained on a cut."`
	List   CandidateList   `cmd:"" help:"All candidates and where they stand."`
	Show   CandidateShow   `cmd:"" help:"One candidate: its times, and everything that happened to it."`
}

// submissionFile holds what the trainer knows of its run.
const submissionFile = "submission.json"

type CandidateSubmit struct {
	Dir        string `arg:"" type:"existingdir" help:"The folder with the weights, and submission.json."`
	Cut        string `help:"The cut that was trained on."`
	Version    string `help:"The new policy version, as the engine will report it."`
	Base       string `help:"The version that was trained from."`
	WeightsURI string `name:"weights-uri" help:"Where the server finds the files; without it: this folder, as file://."`
}

// Help is what --help adds.
func (*CandidateSubmit) Help() string {
	return `submission.json in the folder says what the trainer knows (flags are stronger):
  {"cut": "cut-1", "version": "cand-1", "base": "base", "format": "hf-safetensors", "run": "run-7", "step": 120,
   "shards_consumed": ["cut-1/0"], "rows_trained": 9100, "rows_dropped": [{"reason": "longer than 32k", "disposition": "filtered", "rows": 104}],
   "tokenizer_digest": "…"}
The other files are the weights: their digests are computed here, and again by the server where it can reach them.
The same submission again changes nothing.`
}

// Run submits.
func (c *CandidateSubmit) Run(ctx context.Context, out *Output, at *CandidateCommand) error {
	s, err := c.submission()
	if err != nil {
		return err
	}
	var answer candidate.Candidate
	if err := at.call(ctx, "POST", "/v1/candidates", s, &answer); err != nil {
		return err
	}
	return report(out, answer, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s (%s) is %s; next: millrace candidate show %s\n", answer.ID, answer.Version, answer.State, answer.ID)
		return err
	})
}

func (c *CandidateSubmit) submission() (*candidate.Submission, error) {
	var s candidate.Submission
	path := filepath.Join(c.Dir, submissionFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: the trainer says there what it trained on; see `millrace candidate submit --help`", path)
	}
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields() // a misspelt field would be a statement that nobody reads
	if err := decoder.Decode(&s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, f := range []struct {
		flag string
		into *string
	}{{c.Cut, &s.Cut}, {c.Version, &s.Version}, {c.Base, &s.Base}, {c.WeightsURI, &s.WeightsURI}} {
		if f.flag != "" {
			*f.into = f.flag
		}
	}
	if s.WeightsURI == "" {
		abs, err := filepath.Abs(c.Dir)
		if err != nil {
			return nil, err
		}
		s.WeightsURI = (&url.URL{Scheme: "file", Path: filepath.ToSlash(abs)}).String()
	}
	if s.Files, err = filesOf(c.Dir); err != nil {
		return nil, err
	}
	s.RootDigest = candidate.RootDigest(s.Files)
	return &s, nil
}

// filesOf computes the digests of all files in a folder but the submission itself.
func filesOf(dir string) ([]candidate.File, error) {
	var out []candidate.File
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == submissionFile {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		h := sha256.New()
		n, err := io.Copy(h, file)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		out = append(out, candidate.File{Path: filepath.ToSlash(name), SHA256: hex.EncodeToString(h.Sum(nil)), Bytes: n})
		return nil
	})
	return out, err
}

type CandidateList struct{}

// Run lists.
func (*CandidateList) Run(ctx context.Context, out *Output, at *CandidateCommand) error {
	var answer struct {
		Candidates []candidate.Candidate `json:"candidates"`
	}
	if err := at.call(ctx, "GET", "/v1/candidates", nil, &answer); err != nil {
		return err
	}
	return report(out, answer.Candidates, func(w io.Writer) error {
		if len(answer.Candidates) == 0 {
			_, err := fmt.Fprintln(w, "no candidate yet: one is opened with every packed cut (millrace cut list)")
			return err
		}
		return table(w, func(line func(...any)) {
			for _, c := range answer.Candidates {
				line(c.ID, c.State, c.Version, "of "+c.Cut, "from "+c.Base, c.Reason)
			}
		})
	})
}

type CandidateShow struct {
	ID string `arg:"" help:"The candidate, as in cand-1, or its policy version."`
}

// Run shows.
func (c *CandidateShow) Run(ctx context.Context, out *Output, at *CandidateCommand) error {
	var k checkpoint.CandidateReport
	if err := at.call(ctx, "GET", "/v1/candidates/"+url.PathEscape(c.ID), nil, &k); err != nil {
		return err
	}
	return report(out, k, func(w io.Writer) error {
		fmt.Fprintf(w, "%s  %s  %s  of %s, from %s\n", k.ID, k.State, k.Version, k.Cut, k.Base)
		if k.State.Open() {
			l := k.Ladder
			fmt.Fprintln(w, ladderLine(l))
			if k.Next != nil {
				fmt.Fprintf(w, "next: %s\n", k.Next)
			}
		}
		if s := k.Submission; s != nil {
			fmt.Fprintf(w, "weights %s  %s, %d files, root %.12s…  run %s step %d\n", s.WeightsURI, s.Format, len(s.Files), s.RootDigest, s.Run, s.Step)
			fmt.Fprintf(w, "rows %d trained", s.RowsTrained)
			for _, d := range s.RowsDropped {
				fmt.Fprintf(w, " + %d %s (%s)", d.Rows, d.Disposition, d.Reason)
			}
			fmt.Fprintln(w)
		}
		return table(w, func(line func(...any)) {
			for _, e := range k.Events {
				line(minute(e.At), e.State, e.Who, e.Reason)
			}
		})
	})
}
