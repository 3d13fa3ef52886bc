package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// table writes rows in aligned columns.
func table(w io.Writer, rows func(line func(columns ...any))) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	rows(func(columns ...any) {
		for i, c := range columns {
			if i > 0 {
				fmt.Fprint(t, "\t")
			}
			fmt.Fprint(t, c)
		}
		fmt.Fprintln(t)
	})
	return t.Flush()
}

// minute is a time as people read it, in UTC.
func minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }
