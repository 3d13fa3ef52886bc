package replay

import (
	"cmp"
	"errors"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"millrace/distill/reward"
	"millrace/internal/arrowfile"
	"millrace/schemas/ledger"
)

// batch is rows on their way through a replay.
type batch struct {
	before, after []ledger.Row
	err           error
	done          chan struct{}
}

// File replays a ledger file and hands over its rows, before and after, in their order and some thousands at once. Rows that
// keep refuses are left out; it must treat the turns of a chain alike. One core reads ahead, the others score; beside a row group's columns a few
// batches are in memory.
func File(r *reward.Reward, file *arrowfile.LedgerReader, keep func(*ledger.Row) bool, visit func(before, after []ledger.Row) error) error {
	var work errgroup.Group
	batches, stop := make(chan *batch, runtime.GOMAXPROCS(0)), make(chan struct{})
	send := func(rows []ledger.Row) error {
		b := &batch{before: rows, done: make(chan struct{})}
		select {
		case <-stop:
			return errStopped
		case batches <- b:
		}
		work.Go(func() error {
			defer close(b.done)
			b.after, b.err = Rescore(r, b.before)
			return nil
		})
		return nil
	}
	var read error
	work.Go(func() error {
		defer close(batches)
		read = whole(file, keep, send)
		return nil
	})
	err := func() error {
		defer close(stop)
		for b := range batches {
			<-b.done
			if b.err != nil {
				return b.err
			}
			if err := visit(b.before, b.after); err != nil {
				return err
			}
		}
		return nil
	}()
	_ = work.Wait()
	if err == nil {
		err = read
	}
	return err
}

var errStopped = errors.New("replay: stopped")

// whole reads the file and sends its rows so that the turns of a chain, which stand next to each other, come together.
func whole(file *arrowfile.LedgerReader, keep func(*ledger.Row) bool, send func([]ledger.Row) error) error {
	var held []ledger.Row
	err := file.Each(func(rows []ledger.Row) error {
		// The reader makes new rows each time, so they are ours.
		kept := 0
		for i := range rows {
			if keep(&rows[i]) {
				if kept != i {
					rows[kept] = rows[i]
				}
				kept++
			}
		}
		rows = rows[:kept]
		if len(held) > 0 {
			rows = append(held, rows...)
		}
		n := complete(rows)
		held = slices.Clone(rows[n:])
		return send(rows[:n])
	})
	if err != nil {
		return err
	}
	return send(held) // if a chain is not whole by now, Rescore says so
}

// complete is the number of rows before the first chain that isn't whole: its turns stand next to each other, in any order,
// and each says how many they are.
func complete(rows []ledger.Row) int {
	type chain struct{ first, missing int }
	open := map[turnKey]chain{} // by the turn that answers
	for i := range rows {
		row := &rows[i]
		if row.Chain <= 1 || row.Kind != ledger.Turn {
			continue
		}
		key := turnKey{row.SessionID, cmp.Or(row.AnsweredBy, row.TurnID)}
		c, there := open[key]
		if !there {
			c = chain{i, int(row.Chain)}
		}
		if c.missing--; c.missing == 0 {
			delete(open, key)
		} else {
			open[key] = c
		}
	}
	first := len(rows)
	for _, c := range open {
		first = min(first, c.first)
	}
	return first
}
