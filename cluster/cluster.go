package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	inboxSize   = 4096                   // messages waiting to be read
	tickEvery   = 100 * time.Millisecond // of the loop
	gossipMult  = 3                      // copies of a record that one node gossips, times log10 of the nodes
	lifeBits    = 32                     // of an incarnation, above the random ones
	maxLifeSeen = 1 << 31                // a forged incarnation must not use up the numbers
)

// Cluster is this node's part of the cluster. All its methods may be called
// from any goroutine.
type Cluster struct {
	s       Settings
	prof    profile
	log     *slog.Logger
	codec   *codec
	disk    disk
	keyring *memberlist.Keyring
	hooks   *hooks
	list    *memberlist.Memberlist
	queue   *memberlist.TransmitLimitedQueue

	inbox   chan []byte
	wake    chan struct{}
	changed chan struct{}
	flushed chan struct{} // a peer's worker has sent all it had

	size   atomic.Int32 // configured nodes
	diskMu sync.Mutex   // held while the intents are written
	ringMu sync.Mutex   // held while the ring is changed

	// mu is taken inside memberlist's own lock, by its callbacks. So no method
	// of memberlist is ever called while it is held.
	mu          sync.Mutex
	nodes       []Node
	peers       map[string]*peer // all configured nodes but this one
	store       *store
	incarnation uint64
	sequence    uint64
	lamport     uint64
	own         State
	ownText     []byte // JSON of the state that was published last
	ownSight    []byte
	leaving     string
	left        bool // memberlist.Leave was called
	ended       bool
	sync        syncing
	refutedAt   time.Time
	refutes     int // in the last minute
	due         map[recordKey]late
	problems    problems
	answers     map[uint64]chan string // of key changes under way
	questions   map[uint64]question    // to other nodes, under way
	answering   int                    // questions of other nodes
	dirty       bool                   // intents that are not on disk
	holdingNow  int
	dropped     uint64
	sightAt     time.Time
	steppedAt   time.Time // when the loop ran last
	notes       []note

	run     context.Context // of Run, nil before
	workers sync.WaitGroup
}

// note is a line for the log that a callback must not write itself.
type note struct {
	level slog.Level
	text  string
	args  []any
}

// Start begins to listen. Nodes that find this one may join it from now on;
// Run does the rest.
func Start(s Settings, log *slog.Logger) (*Cluster, error) {
	s.Nodes = slices.Clone(s.Nodes)
	prof, err := s.complete()
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	c := &Cluster{
		s: s, prof: prof, log: log, codec: &codec{}, disk: disk{s.Dir},
		inbox: make(chan []byte, inboxSize), wake: make(chan struct{}, 1),
		changed: make(chan struct{}, 1), flushed: make(chan struct{}, 1),
		peers: map[string]*peer{}, store: newStore(), due: map[recordKey]late{},
		problems: problems{map[problemID]*seenProblem{}}, answers: map[uint64]chan string{}, questions: map[uint64]question{},
	}
	c.hooks = &hooks{c}
	if c.keyring, err = ring(s.Keys); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	c.queue = &memberlist.TransmitLimitedQueue{RetransmitMult: gossipMult, NumNodes: func() int { return int(c.size.Load()) }}
	c.recall()
	now := time.Now()
	c.sync = syncing{certainty: Settling, since: now, changedAt: s.Wall()}
	c.sync.begin(now)
	c.setNodes(s.Nodes)
	conf, err := c.memberlistConfig()
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	if c.list, err = memberlist.Create(conf); err != nil {
		return nil, fmt.Errorf("cluster: start memberlist: %w", err)
	}
	return c, nil
}

// recall reads the state directory. What cannot be read is no reason not to
// start: the other nodes know it too.
func (c *Cluster) recall() {
	wall := c.s.Wall()
	n, err := c.disk.nextLife()
	if err != nil {
		c.problem(ProblemDisk, "", filepath.Join(c.s.Dir, incarnationFile), err.Error())
	}
	c.incarnation = n<<lifeBits | uint64(rand.Uint32())
	records, bodies, err := c.disk.loadIntents(c.codec, wall)
	if err != nil {
		c.problem(ProblemDisk, "", filepath.Join(c.s.Dir, intentsFile), err.Error())
	}
	for i, r := range records {
		c.store.merge(r, bodies[i], time.Now())
		c.lamport = max(c.lamport, r.ver.hi)
	}
}

// Run keeps the cluster together until the context ends. Then this node is
// gone without a word: call Leave before.
func (c *Cluster) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.mu.Lock()
	if c.run != nil || c.ended {
		c.mu.Unlock()
		return errors.New("cluster: Run was called before")
	}
	c.run = ctx
	c.steppedAt = time.Now()
	for _, p := range c.peers {
		c.startWorker(p)
	}
	c.mu.Unlock()
	c.workers.Add(1)
	go func() {
		defer c.workers.Done()
		c.receive(ctx)
	}()
	c.loop(ctx)
	return c.shutdown()
}

func (c *Cluster) shutdown() error {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	err := c.list.Shutdown()
	c.workers.Wait()
	err = errors.Join(err, c.persist())
	if err != nil {
		return fmt.Errorf("cluster: stop: %w", err)
	}
	return nil
}

// loop does what is due. It is woken by whatever changes.
func (c *Cluster) loop(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-c.wake:
		}
		c.step(time.Now())
	}
}

// step is one round of the loop.
func (c *Cluster) step(now time.Time) {
	c.mu.Lock()
	c.stalled(now)
	c.askForLate(now)
	c.greet(now)
	if n := c.holding(now); n != c.holdingNow {
		c.holdingNow = n
		c.poke()
	}
	if c.problems.expire(now) {
		c.poke()
	}
	c.judge(now)
	c.publishSight(now)
	notes := c.notes
	c.notes = nil
	dirty := c.dirty
	c.mu.Unlock()
	for _, n := range notes {
		c.log.Log(context.Background(), n.level, n.text, n.args...) //nolint:sloglint // the text of a note is a constant where it is made
	}
	if dirty {
		if err := c.persist(); err != nil {
			c.mu.Lock()
			c.problem(ProblemDisk, "", filepath.Join(c.s.Dir, intentsFile), err.Error())
			c.mu.Unlock()
		}
	}
}

// persist keeps the intents that came from others.
func (c *Cluster) persist() error {
	c.diskMu.Lock()
	defer c.diskMu.Unlock()
	c.mu.Lock()
	if !c.dirty {
		c.mu.Unlock()
		return nil
	}
	c.dirty = false
	list := c.intentRecords(time.Now())
	c.mu.Unlock()
	if err := c.disk.saveIntents(list, c.s.Wall()); err != nil {
		c.mu.Lock()
		c.dirty = true
		c.mu.Unlock()
		return err
	}
	return nil
}

// Changes delivers a token when View may have changed. Tokens do not pile up.
func (c *Cluster) Changes() <-chan struct{} { return c.changed }

// poke tells the reader of Changes.
func (c *Cluster) poke() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// rouse makes the loop look again.
func (c *Cluster) rouse() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *Cluster) noted(level slog.Level, text string, args ...any) {
	if len(c.notes) < inboxSize {
		c.notes = append(c.notes, note{level, text, args})
	}
}

// problem remembers that something is wrong and logs it when it is new.
func (c *Cluster) problem(code ProblemCode, node, address, evidence string) {
	if c.problems.note(code, node, address, evidence, c.s.Wall(), time.Now()) {
		c.noted(slog.LevelWarn, "cluster problem", "code", code, "node", node, "address", address, "evidence", evidence)
		c.poke()
	}
}
