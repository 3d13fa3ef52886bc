package sim

// queue is a binary heap of things that lie ahead, ordered by time and, at the same time, by the order in which
// they were put in: so the outcome never depends on how far Next is told to go.
type queue[T any] struct {
	items []queued[T]
	count uint64
}

type queued[T any] struct {
	at    int64 // µs
	order uint64
	what  T
}

func (a queued[T]) before(b queued[T]) bool {
	return a.at < b.at || (a.at == b.at && a.order < b.order)
}

func (q *queue[T]) put(at int64, what T) {
	q.count++
	q.items = append(q.items, queued[T]{at: at, order: q.count, what: what})
	i := len(q.items) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !q.items[i].before(q.items[parent]) {
			break
		}
		q.items[i], q.items[parent] = q.items[parent], q.items[i]
		i = parent
	}
}

// due says whether something lies at or before until.
func (q *queue[T]) due(until int64) bool { return len(q.items) > 0 && q.items[0].at <= until }

func (q *queue[T]) take() (at int64, what T) {
	top := q.items[0]
	last := len(q.items) - 1
	q.items[0] = q.items[last]
	q.items[last] = queued[T]{}
	q.items = q.items[:last]
	i := 0
	for {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && q.items[child+1].before(q.items[child]) {
			child++
		}
		if !q.items[child].before(q.items[i]) {
			break
		}
		q.items[i], q.items[child] = q.items[child], q.items[i]
		i = child
	}
	return top.at, top.what
}
