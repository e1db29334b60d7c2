/* shmtx with the strategy `futex` (src/sync/shmtx.cc): mutual exclusion, over the deaths of owners and waiters.

   PROCESSES processes take and release it ROUNDS times each. Fate kills, ends slices of sleep and waiters' patience, at
   any step of anybody. A killed process is followed by a new one, which takes any free slot. As long as a process
   lives, the kernel holds a lock on its slot; the generation in the slot grows with each owner.

   What is shown, and how:

   - Mutual exclusion: nobody is `inside` when somebody comes in. Data left in a mess by the dead are seen by none but
     who repairs them: `dirty`.
   - No wake-up is lost beyond one bounded sleep. Time passes only when nobody can take a step, and each such tick,
     which ends all slices of sleep, must be paid for. A kill pays for one, and nothing else does.
   - Termination: there is no cycle of states at all, so every run ends (the runner has Spin look for cycles).

   -DMUTANT_... plants a fault. The runner (`run`, beside this file) demands that each is found. */

#ifndef PROCESSES
#define PROCESSES 3
#endif
#ifndef SLOTS
#define SLOTS PROCESSES /* one more, and that of the dead may stay empty */
#endif
#ifndef ROUNDS
#define ROUNDS 1 /* of each process */
#endif

/* How often Fate does what. */
#ifndef KILLS
#define KILLS 0
#endif
#ifndef LOOKS
#define LOOKS 0 /* slices of sleep that end before anybody needs it */
#endif
#ifndef LEAVES
#define LEAVES 0 /* deadlines that pass */
#endif
#ifndef TICKS_PER_KILL
#define TICKS_PER_KILL 1
#endif

#define NOBODY 0
#define TOKEN(slot, generation) (1 + (slot) + SLOTS * (generation))
#define SLOT(token) (((token)-1) % SLOTS)
#define GENERATION(token) (((token)-1) / SLOTS)

/* ShmtxState::word */
byte owner = NOBODY;
bit waiters = 0;

/* The slots: the kernel's lock, and the generation */
bit held[SLOTS];
byte gen[SLOTS];

/* By process. */
bit parked[PROCESSES]; /* in futex_wait */
bit slice_over[PROCESSES];
bit leaving[PROCESSES];
bit doomed[PROCESSES];
bit over[PROCESSES];

/* What only the proof knows. */
byte inside = NOBODY;
bit dirty = 0;
byte finished = 0;
byte paid = 0; /* ticks */

inline come_in() {
  assert(inside == NOBODY);
  inside = self
}

inline give_up() { /* LockResult::timeout */
  leaving[me] = 0;
  seen = NOBODY;
  marked = 0;
  dead = 0;
  goto next_round
}

inline futex_wake() { /* one of them, or nobody */
  if
  :: parked[0] -> parked[0] = 0
  :: parked[1] -> parked[1] = 0
#if PROCESSES > 2
  :: parked[2] -> parked[2] = 0
#endif
  :: else
  fi
}

proctype Process(byte me) {
  byte self, slot, seen, round;
  bit entered, mark, marked, dead;

life:
  {
    if
    :: atomic { gen[me] == 0 -> slot = me; entered = 1; gen[me] = 1; self = TOKEN(me, 1) }
       goto next_round
    :: else
    fi;
    /* ProcessTable::enter(): the kernel's lock on the slot, then the generation */
    if
    :: d_step { !held[0] -> held[0] = 1; slot = 0; entered = 1 }
    :: d_step { !held[1] -> held[1] = 1; slot = 1; entered = 1 }
#if SLOTS > 2
    :: d_step { !held[2] -> held[2] = 1; slot = 2; entered = 1 }
#endif
#if SLOTS > 3
    :: d_step { !held[3] -> held[3] = 1; slot = 3; entered = 1 }
#endif
    fi;
    d_step { gen[slot]++; self = TOKEN(slot, gen[slot]) }

next_round:
    if
    :: atomic { round == ROUNDS -> held[slot] = 0; entered = 0; over[me] = 1; finished++; goto end }
    :: d_step { else -> round++; mark = 0 }
    fi;

look: /* wait_on_futex(); the first time it is lock_fast() */
    if
    :: atomic { owner == NOBODY && !waiters -> /* take_free() */
         owner = self;
         waiters = mark;
         come_in();
         assert(!dirty);
         goto hold }
    :: d_step { else -> seen = owner; marked = waiters }
    fi;
    if
    :: leaving[me] -> goto judge
    :: else
    fi;
    if
    :: marked
    :: d_step { !marked && owner == seen && !waiters -> waiters = 1; marked = 1 } /* the exact word */
    :: d_step { !marked && !(owner == seen && !waiters) -> seen = NOBODY } goto look
    fi;
#ifndef MUTANT_MARK_FORGOTTEN
    mark = 1;
#endif
    if /* futex_wait(): the kernel compares, and puts to sleep, in one step */
#ifdef MUTANT_SLEEP_WITHOUT_COMPARING
    :: d_step { !leaving[me] -> parked[me] = 1 }
#else
    :: d_step { owner == seen && waiters && !leaving[me] -> parked[me] = 1 }
    :: d_step { !(owner == seen && waiters) && !leaving[me] -> seen = NOBODY; marked = 0 } goto look
#endif
    :: leaving[me]
    fi;
    !parked[me];
    if
#ifdef MUTANT_JUDGES_WHAT_IT_SLEPT_ON
    :: d_step { slice_over[me] -> slice_over[me] = 0 }
#else
    :: d_step { slice_over[me] -> slice_over[me] = 0; seen = owner; marked = waiters }
#endif
    :: d_step { else -> seen = NOBODY; marked = 0 } goto look
    fi;

judge: /* take_from_dead(): the kernel is asked first, then the generation is read */
    if
    :: d_step { seen == NOBODY -> marked = 0 } goto look
    :: d_step { else -> dead = !held[SLOT(seen)] }
    fi;
#ifndef MUTANT_GENERATION_IGNORED
    if
    :: d_step { !dead -> dead = (gen[SLOT(seen)] != GENERATION(seen)) }
    :: dead
    fi;
#endif
    if
#ifdef MUTANT_BLIND_TAKEOVER
    :: atomic { dead ->
#else
    :: atomic { dead && owner == seen && waiters == marked ->
#endif
         owner = self;
         waiters = 1;
         come_in();
         goto repair }
    :: else
    fi;
    if
    :: atomic { leaving[me] && (!mark || marked) -> give_up() }
#ifdef MUTANT_GAVE_UP_WITHOUT_MARK
    :: atomic { leaving[me] && mark && !marked -> give_up() }
#else
    :: atomic { leaving[me] && mark && !marked && owner == seen && !waiters -> waiters = 1; give_up() }
    :: d_step { leaving[me] && mark && !marked && !(owner == seen && !waiters) -> seen = NOBODY; dead = 0 } goto look
#endif
    :: d_step { !leaving[me] -> seen = NOBODY; marked = 0; dead = 0 } goto look
    fi;

repair: /* LockResult::owner_died; it may be killed in here like anywhere */
#ifndef MUTANT_REPAIR_SKIPPED
    skip;
    dirty = 0;
#endif
    assert(!dirty);

hold:
    atomic { dirty = 1; leaving[me] = 0; seen = NOBODY; marked = 0; dead = 0 }
    dirty = 0;
    d_step { /* unlock(): the word becomes 0, and what it was is known */
      assert(owner == self);
      owner = NOBODY;
      marked = waiters;
      waiters = 0;
      inside = NOBODY
    }
    if
    :: atomic { marked -> marked = 0; futex_wake() }
    :: else
    fi;
    goto next_round
  } unless { doomed[me] };

  /* Killed: takes no step more. A moment later the kernel gives up its lock on the slot. */
  d_step {
    doomed[me] = 0;
    parked[me] = 0;
    slice_over[me] = 0;
    leaving[me] = 0;
    if
    :: self != NOBODY && inside == self -> inside = NOBODY
    :: else
    fi
  }
  d_step {
    if
    :: entered -> held[slot] = 0
    :: else
    fi;
    entered = 0;
    self = 0;
    slot = 0;
    seen = 0;
    mark = 0;
    marked = 0;
    dead = 0
  }
  goto life;

end:
  skip
}

/* Nobody can take a step. */
#if PROCESSES == 2
#define ALL(word) (word[0] + word[1])
#else
#define ALL(word) (word[0] + word[1] + word[2])
#endif
#define STANDSTILL (ALL(parked) + finished == PROCESSES && ALL(doomed) == 0)

/* One line for each thing that Fate may do to one process. */
#define KILL(p) \
  d_step { kills < KILLS && !over[p] && !doomed[p] -> doomed[p] = 1; kills++; paid = paid + TICKS_PER_KILL }
#define END_SLICE(p) \
  d_step { looks < LOOKS && parked[p] -> parked[p] = 0; slice_over[p] = 1; looks++ }
#define END_PATIENCE(p)                                                \
  d_step {                                                             \
    leaves < LEAVES && !over[p] && !leaving[p] && !doomed[p] ->        \
    leaving[p] = 1; slice_over[p] = parked[p]; parked[p] = 0; leaves++ \
  }

#ifdef MUTANT_UNBOUNDED_SLEEP
#define TICK(p) skip
#else
#define TICK(p) slice_over[p] = parked[p]; parked[p] = 0
#endif

proctype Fate() {
  byte kills = 0, looks = 0, leaves = 0;

  do
  :: KILL(0)
  :: KILL(1)
  :: END_SLICE(0)
  :: END_SLICE(1)
  :: END_PATIENCE(0)
  :: END_PATIENCE(1)
#if PROCESSES > 2
  :: KILL(2)
  :: END_SLICE(2)
  :: END_PATIENCE(2)
#endif
  :: d_step { STANDSTILL && finished < PROCESSES -> /* time passes */
       assert(paid > 0);
       paid--;
       TICK(0);
       TICK(1)
#if PROCESSES > 2
       ; TICK(2)
#endif
     }
  :: finished == PROCESSES -> break
  od;
  assert(inside == NOBODY)
}

init {
  atomic {
    held[0] = 1;
    held[1] = 1;
#if PROCESSES > 2
    held[2] = 1;
#endif
    run Process(0);
    run Process(1);
#if PROCESSES > 2
    run Process(2);
#endif
    run Fate()
  }
}
