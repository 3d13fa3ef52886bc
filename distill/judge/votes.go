package judge

import (
	"millrace/schemas/event"
)

// outcome is how one vote ended.
type outcome int

const (
	failed     outcome = iota // no answer that is about the exchange: unreachable, overloaded, a wrong key
	cast                      // a vote
	unsure                    // the model can't tell
	unreadable                // an answer that is none
	refused                   // the endpoint does not take this exchange
	timeout                   // it took too long
)

// vote is one call's end: a ballot if it was cast.
type vote struct {
	outcome
	ballot
	err error // why there is none
}

// decide makes one verdict of the votes. A polarity wins with more than half of all votes that were asked for, so that
// abstentions and time-outs count against every verdict; its class is the one that most of its voters named. Confidence
// is the winners' share of all votes × their mean confidence. If nobody answered it is an error: nobody judged.
func decide(votes []vote) (Verdict, error) {
	v := Verdict{Votes: count(votes)}
	if v.Votes.Answered() == 0 && v.Votes.Failed > 0 {
		for _, one := range votes {
			if one.outcome == failed {
				return v, one.err
			}
		}
	}
	for polarity := -1; polarity <= 1; polarity++ {
		n, sum := 0, 0.
		named := map[event.FollowUpClass]int{}
		for _, one := range votes {
			if one.outcome == cast && one.polarity == polarity {
				n++
				sum += one.confidence
				named[one.class]++
			}
		}
		if 2*n > len(votes) {
			v.Class, v.Polarity = most(named), float64(polarity)
			v.Confidence = sum / float64(len(votes))
			return v, nil
		}
	}
	v.Abstained = v.Votes.why()
	return v, nil
}

// most is the class that was named most often; of equals the first of the schema.
func most(named map[event.FollowUpClass]int) event.FollowUpClass {
	best := event.FollowUpClass_FOLLOW_UP_CLASS_UNSPECIFIED
	for c, n := range named {
		if n > named[best] || (n == named[best] && c < best) {
			best = c
		}
	}
	return best
}

func count(votes []vote) Votes {
	var v Votes
	for _, one := range votes {
		switch one.outcome {
		case cast:
			v.Cast++
		case unsure:
			v.Unclear++
		case unreadable:
			v.Unreadable++
		case refused:
			v.Refused++
		case timeout:
			v.Timeout++
		case failed:
			v.Failed++
		}
	}
	return v
}

// why there is no majority: what kept most votes from being cast, if at most half were.
func (v Votes) why() string {
	lost := v.Unclear + v.Unreadable + v.Refused + v.Timeout + v.Failed
	if v.Cast > lost {
		return AbstainedNoMajority
	}
	reason, n := AbstainedTimeout, v.Timeout+v.Failed
	for _, other := range []struct {
		reason string
		n      int
	}{{AbstainedUnclear, v.Unclear}, {AbstainedUnreadable, v.Unreadable}, {AbstainedRefused, v.Refused}} {
		if other.n > n {
			reason, n = other.reason, other.n
		}
	}
	return reason
}
