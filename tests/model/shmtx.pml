/* Models a shmtx of the kind `futex` (src/sync/shmtx.cc), whose owners and waiters may die.

   PROCESSES processes take and release the mutex ROUNDS times each. Fate kills processes, ends sleep intervals, makes
   waiters time out, and overwrites a free word with the token of a live process, at any step of any process. A new
   process replaces each killed process and takes any free slot. While a process lives, the kernel holds a lock on its
   slot. The generation in the slot grows with each owner. With THREADS=N, the first N processes are threads of one
   process, and Fate kills nobody.

   The model shows:

   - Mutual exclusion: no process is `inside` when another process enters. Only the process that repairs data sees the
     inconsistent state that a dead process left (`dirty`).
   - No wake-up is lost for longer than one bounded sleep. Time passes only when no process can take a step. Each such
     tick ends all sleep intervals and must be paid for. Only a kill pays, for one tick.
   - Termination: the states have no cycle, so every run ends. (The runner makes Spin search for cycles.)

   -DMUTANT_... plants a fault. The runner (`run`, in this directory) requires that Spin finds each fault. */

#ifndef PROCESSES
#define PROCESSES 3
#endif
#ifndef SLOTS
#define SLOTS PROCESSES /* with one more, the dead process's slot may stay empty */
#endif
#ifndef ROUNDS
#define ROUNDS 1 /* per process */
#endif

/* The number of times that Fate does each of these things. */
#ifndef KILLS
#define KILLS 0
#endif
#ifndef LOOKS
#define LOOKS 0 /* sleep intervals that end while other processes can still take steps */
#endif
#ifndef LEAVES
#define LEAVES 0 /* deadlines that pass */
#endif
#ifndef LIES
#define LIES 0 /* overwritten words */
#endif
#ifndef TICKS_PER_LIE
#define TICKS_PER_LIE 1
#endif
#ifndef THREADS
#define THREADS 1
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
byte section = 0; /* the owner's section number */
#define IS_SEEN (owner == seen && section == seen_section)

/* For each slot: the kernel's lock, the generation, and ProcessSlot::sections. */
bit held[SLOTS];
byte gen[SLOTS];
byte within[SLOTS]; /* threads that are in a section, or are trying to begin one */
byte begun[SLOTS];

/* Indexed by process. */
bit parked[PROCESSES]; /* in futex_wait */
bit slice_over[PROCESSES];
bit leaving[PROCESSES];
bit doomed[PROCESSES];
bit over[PROCESSES];

/* Variables that only the proof uses. */
byte inside = NOBODY;
bit dirty = 0;
byte finished = 0;
byte paid = 0; /* for ticks */

inline come_in() {
  assert(inside == NOBODY);
  inside = self
}

inline forget() {
  seen = NOBODY;
  seen_section = 0;
  saw_waiters = 0;
  dead = 0
}

inline give_up() { /* LockResult::timeout */
  leaving[me] = 0;
  forget();
  goto next_round
}

inline futex_wake() { /* wakes one sleeper, if there is any */
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
  byte self, slot, seen, seen_section, number, round;
  bit entered, with_waiters, saw_waiters, dead;

life:
  {
    if
    :: atomic { gen[me] == 0 ->
         gen[me] = 1;
         entered = 1;
         slot = (me < THREADS -> 0 : me);
         self = TOKEN(slot, 1) }
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
    d_step { within[slot] = 0; begun[slot] = 0 }
    d_step { gen[slot]++; self = TOKEN(slot, gen[slot]) }

next_round:
    if
    :: atomic { round == ROUNDS ->
#if THREADS == 1
         held[slot] = 0;
#endif
         entered = 0;
         over[me] = 1;
         finished++;
         goto end }
    :: d_step { else -> round++; with_waiters = 0 }
    fi;

look: /* wait_on_futex(); on the first attempt, lock_fast() */
    atomic { begun[slot]++; number = begun[slot] } /* take(): begin_section() */
#ifndef MUTANT_COUNTED_TOO_LATE
    within[slot]++;
#endif
    if
    :: atomic { owner == NOBODY && !waiters ->
         owner = self;
         waiters = with_waiters;
         section = number;
         come_in();
         assert(!dirty);
         goto hold }
    :: d_step { else -> seen = owner; saw_waiters = waiters; seen_section = section; number = 0;
#ifndef MUTANT_COUNTED_TOO_LATE
         within[slot]--
#endif
       }
    fi;
    if
    :: leaving[me] -> goto judge
    :: else
    fi;
    if
    :: saw_waiters
    :: d_step { !saw_waiters && IS_SEEN && !waiters -> waiters = 1; saw_waiters = 1 } /* expects the exact word */
    :: d_step { !saw_waiters && !(IS_SEEN && !waiters) -> forget() } goto look
    fi;
#ifndef MUTANT_WAITERS_BIT_FORGOTTEN
    with_waiters = 1;
#endif
    if /* futex_wait(): the kernel compares and sleeps in one step */
#ifdef MUTANT_SLEEP_WITHOUT_COMPARING
    :: d_step { !leaving[me] -> parked[me] = 1 }
#else
    :: d_step { owner == seen && waiters && !leaving[me] -> parked[me] = 1 }
    :: d_step { !(owner == seen && waiters) && !leaving[me] -> forget() } goto look
#endif
    :: leaving[me]
    fi;
    !parked[me];
    if
#ifdef MUTANT_JUDGES_WHAT_IT_SLEPT_ON
    :: d_step { slice_over[me] -> slice_over[me] = 0 }
#else
    :: d_step { slice_over[me] -> slice_over[me] = 0; seen = owner; saw_waiters = waiters; seen_section = section }
#endif
    :: d_step { else -> forget() } goto look
    fi;

judge: /* take_from_dead(): asks the kernel first, then reads the generation, then who is inside */
    if
    :: d_step { seen == NOBODY -> forget() } goto look
    :: d_step { else -> dead = !held[SLOT(seen)] }
    fi;
#ifndef MUTANT_GENERATION_IGNORED
    if
    :: d_step { !dead -> dead = (gen[SLOT(seen)] != GENERATION(seen)) }
    :: dead
    fi;
#endif
#ifndef MUTANT_LIE_BELIEVED
    if
    :: d_step { !dead -> dead = (within[SLOT(seen)] == 0) }
    :: dead
    fi;
#endif
    if
    :: dead ->
       d_step { begun[slot]++; number = begun[slot] }
#ifndef MUTANT_COUNTED_TOO_LATE
       within[slot]++;
#endif
       if
#ifdef MUTANT_BLIND_TAKEOVER
       :: atomic { true ->
#else
#ifdef MUTANT_NUMBER_IGNORED
       :: atomic { owner == seen && waiters == saw_waiters ->
#else
       :: atomic { IS_SEEN && waiters == saw_waiters ->
#endif
#endif
            owner = self;
            waiters = 1;
            section = number;
            come_in();
            goto repair }
#ifndef MUTANT_BLIND_TAKEOVER
       :: d_step { else -> number = 0;
#ifndef MUTANT_COUNTED_TOO_LATE
            within[slot]--
#endif
          }
#endif
       fi
    :: else
    fi;
    if
    :: atomic { leaving[me] && (!with_waiters || saw_waiters) -> give_up() }
#ifdef MUTANT_GAVE_UP_WITHOUT_WAITERS_BIT
    :: atomic { leaving[me] && with_waiters && !saw_waiters -> give_up() }
#else
    :: atomic { leaving[me] && with_waiters && !saw_waiters && IS_SEEN && !waiters -> waiters = 1; give_up() }
    :: d_step { leaving[me] && with_waiters && !saw_waiters && !(IS_SEEN && !waiters) -> forget() } goto look
#endif
    :: d_step { !leaving[me] -> forget() } goto look
    fi;

repair: /* LockResult::owner_died; Fate may also kill the process here */
#ifndef MUTANT_REPAIR_SKIPPED
    skip;
    dirty = 0;
#endif
    assert(!dirty);

hold:
#ifdef MUTANT_COUNTED_TOO_LATE
    within[slot]++;
#endif
    atomic { dirty = 1; leaving[me] = 0; forget(); number = 0 }
    dirty = 0;
#ifdef MUTANT_COUNTED_TOO_SHORT
    within[slot]--;
#endif
    d_step { /* unlock(): the word becomes 0, and the old value is returned */
      assert(owner == self);
      owner = NOBODY;
      saw_waiters = waiters;
      waiters = 0;
      section = 0;
      inside = NOBODY
    }
#ifndef MUTANT_COUNTED_TOO_SHORT
    within[slot]--; /* end_section() */
#endif
    if
    :: atomic { saw_waiters -> saw_waiters = 0; futex_wake() }
    :: else
    fi;
    goto next_round
  } unless { doomed[me] };

  /* A killed process takes no further step. Shortly afterwards, the kernel releases its lock on the slot. */
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
    forget();
    number = 0;
    with_waiters = 0
  }
  goto life;

end:
  skip
}

/* True if no process can take a step. */
#if PROCESSES == 2
#define ALL(word) (word[0] + word[1])
#else
#define ALL(word) (word[0] + word[1] + word[2])
#endif
#define STANDSTILL (ALL(parked) + finished == PROCESSES && ALL(doomed) == 0)

/* The things that Fate may do to one process. */
#define KILL(p) \
  d_step { kills < KILLS && !over[p] && !doomed[p] -> doomed[p] = 1; kills++; paid = paid + TICKS_PER_KILL }
/* The newest section number, if this section has ended. */
#define LIE(s)                                                                        \
  d_step {                                                                            \
    lies < LIES && owner == NOBODY && !waiters && held[s] && gen[s] > 0 ->            \
    owner = TOKEN(s, gen[s]); section = begun[s]; dirty = 1; lies++; paid = paid + TICKS_PER_LIE \
  }
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
  byte kills = 0, looks = 0, leaves = 0, lies = 0;

  do
  :: KILL(0)
  :: KILL(1)
  :: LIE(0)
  :: LIE(1)
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
