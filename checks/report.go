package checks

// ReportOptions are the settings of a report check: it has none of its own.
type ReportOptions struct{}

// NeedsTarget implements Options.
func (*ReportOptions) NeedsTarget() TargetKind { return TargetNone }

// Problems implements Options.
func (*ReportOptions) Problems() []Problem { return nil }

// Prober implements Options. There is none: applications make the results, and
// Runner.Feed takes them in.
func (*ReportOptions) Prober(Target) (Prober, error) { return nil, nil }
