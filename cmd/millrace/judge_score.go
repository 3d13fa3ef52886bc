package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"millrace/cmd/millrace/internal/scorecard"
	"millrace/distill/judge"
	"millrace/schemas/event"
)

// mostAway is how many pairs of requests in a row may find nobody there: then the command ends, rather than take hours.
const mostAway = 3

// ask puts the pairs of requests to the model, and gives the evidence; judged is told what was sent and what came of it.
func (j *Judge) ask(ctx context.Context, out *Output, model *judge.OpenAI, asks []*judge.Ask, judged *scorecard.Judged) ([]*event.SessionEvent, error) {
	fmt.Fprintf(out.Err, "sending %d pairs of requests to %s\n", len(asks), judged.URL)
	judged.Pairs = len(asks)
	evidence := make([]*event.SessionEvent, len(asks))
	var mu sync.Mutex
	away := 0
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(j.atOnce())
	for i, a := range asks {
		group.Go(func() error {
			v, err := model.Judge(ctx, a.Exchange)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, judge.ErrAway):
				judged.Failed++
				if away++; away >= mostAway {
					return fmt.Errorf("%w; without --judge-url nothing is asked", err)
				}
				return nil
			case err != nil:
				return err
			case v.Abstained != "":
				judged.Abstained[v.Abstained]++
			default:
				judged.Verdicts++
			}
			away = 0
			evidence[i], err = a.Evidence(v, model.Version())
			return err
		})
	}
	err := group.Wait()
	judged.Calls, judged.Bytes = model.Sent()
	return slices.DeleteFunc(evidence, func(e *event.SessionEvent) bool { return e == nil }), err
}

// sentence says what was sent where, and what came of it.
func sentence(j *scorecard.Judged) string {
	abstained := 0
	for _, n := range j.Abstained {
		abstained += n
	}
	text := fmt.Sprintf("sent to %s: pairs of requests %d, in calls %d, bytes %d; %s: verdicts %d, abstentions %d",
		j.URL, j.Pairs, j.Calls, j.Bytes, j.Version, j.Verdicts, abstained)
	if j.Failed > 0 {
		text += fmt.Sprintf("; nobody there for %d", j.Failed)
	}
	return text
}
