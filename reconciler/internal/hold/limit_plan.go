package hold

import "strconv"

// plans numbers the plans, so that only changes that were shown can be approved.
type plans struct {
	run     string // distinguishes the plans of different runs
	current uint64 // the plan that the next held change will belong to
	shown   uint64 // the last plan that was shown and not yet approved, or 0
}

// PlanID returns the id of the current plan, which all held changes belong to.
func (l *ChangeLimiter) PlanID() string { return l.plans.id(l.plans.current) }

// ShowPlan returns the id of the current plan, which can be approved from now on.
func (l *ChangeLimiter) ShowPlan() string {
	l.plans.shown = l.plans.current
	return l.PlanID()
}

// Approve admits the held changes of the plan that was shown last, and returns their number. It
// reports false if id identifies another plan.
func (l *ChangeLimiter) Approve(id string) (items int, ok bool) {
	if l.plans.shown == 0 || id != l.plans.id(l.plans.shown) {
		return 0, false
	}
	if l.strandsMore() {
		l.plans.next()
		return 0, false
	}
	l.each(func(c *counter) {
		if c.holding {
			items += c.approve(l.plans.shown)
			if c.undecided == 0 && l.known(c) {
				l.release(c)
			}
		}
	})
	l.plans.next()
	return items, true
}

func (p *plans) id(plan uint64) string { return p.run + "-" + strconv.FormatUint(plan, 10) }

// next starts a new plan; the one that was shown can no longer be approved.
func (p *plans) next() { p.current, p.shown = max(p.current, p.shown+1), 0 }
