package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"millrace/checkpoint/audit"
)

// AuditCommand is the audit log.
type AuditCommand struct {
	Remote `embed:""`
	Since  moment `placeholder:"TIME" help:"Only what was done since then: 2026-03-01 or 2026-03-01T12:00:00Z."`
	Object string `placeholder:"ID" help:"Only what was done to this: cand-1, cut-2, a version, loop."`
	Who    string `placeholder:"NAME" help:"Only what this token's owner did; millrace is the loop itself."`
	Limit  int    `default:"100" help:"The newest so many, at most 1000."`
}

// Run lists.
func (c *AuditCommand) Run(ctx context.Context, out *Output) error {
	query := url.Values{"limit": {strconv.Itoa(c.Limit)}}
	for key, value := range map[string]string{"object": c.Object, "who": c.Who} {
		if value != "" {
			query.Set(key, value)
		}
	}
	if t := time.Time(c.Since); !t.IsZero() {
		query.Set("since", t.Format(time.RFC3339))
	}
	var answer struct {
		Entries []audit.Entry `json:"entries"`
	}
	if err := c.call(ctx, "GET", "/v1/audit?"+query.Encode(), nil, &answer); err != nil {
		return err
	}
	return report(out, answer.Entries, func(w io.Writer) error {
		if len(answer.Entries) == 0 {
			_, err := fmt.Fprintln(w, "nothing was done")
			return err
		}
		return table(w, func(line func(...any)) {
			line("at, UTC", "who", "what", "to", "why", "seen")
			for _, e := range answer.Entries {
				seen := string(e.Detail)
				if seen == "{}" {
					seen = ""
				}
				line(minute(e.At), e.Who, e.Type, e.Object, e.Why, seen)
			}
		})
	})
}
