/* Models a lock's word. A lock is taken and released without the shard's mutex, although processes may die, and memory
   may be moved and reused (src/dict/lock_word.h, src/lock/fast_path.cc, src/lock/lock_entry.h, src/dict/transaction.cc,
   src/dict/clock_sweep.cc).

   The model has up to two keys, with entries in up to two slots of memory. PROCESSES processes take and release the
   lock of a key ROUNDS times, on the fast path or under the mutex. A Sweeper moves and removes entries, stores values
   over locks and into free memory, and ends other processes' grants by their leases. Fate kills processes, ends leases
   and makes waiters time out, at any step of any process. Every access to a word that is used without the mutex is a
   separate step. Accesses that only the mutex's owner makes (to queues, free memory, and chains as the owner sees them)
   are part of the adjacent step. A new process with the next generation replaces each killed process. A comment next to
   a step names the function that the step models.

   The model shows:

   - Mutual exclusion: `inside` is the process with a lease of the key that has not ended. A process that gets a lease
     finds `inside` empty. No process loses a lease early: a releasing process still has its lease unless the lease has
     ended.
   - The numbers of each key rise. With -DNUMBERS, no number is granted twice, not even for different keys.
   - The owner of an incomplete grant writes its fields into the entry of its own lock, not into memory that was freed
     or moved. It finds no reservation there, because a reservation would make the grant look like a different grant.
   - An expiry counts only for the grant whose turn number was read with it (look_if_expired).
   - Waiters miss no release: time passes only when no process can take a step. Each such tick must be paid for by a
     death. A death pays for two ticks.
   - At the end, whatever dead processes have left behind, an operation can take the lock, and does not leave it
     MUTEX_OWNED.
   - With -DLIES, values that look like a free lock are intact at the end.

   -DMUTANT_... plants a fault. The runner (`run`, in this directory) requires that Spin finds each fault.

   Not modelled: which waiter comes next and how it sleeps (wait_core.pml); the mutex (shmtx.pml); reasons and watchers,
   which keep a lock MUTEX_OWNED as waiters do; flushes; the wrap-around of the turn number; and memory ordering
   (tests/weak/lock_word_test.cc), because Spin's memory is sequentially consistent. A repair is one step. */

#ifndef PROCESSES
#define PROCESSES 2
#endif
#ifndef ROUNDS
#define ROUNDS 1 /* per process */
#endif
#ifndef KEYS
#define KEYS 1
#endif
#ifndef PLACES
#define PLACES 1 /* slots of memory; each has room for one entry */
#endif
#ifndef BLOCK
#define BLOCK 8 /* kBlockNumbers */
#endif
#ifndef SHORT
#define SHORT 0 /* whether a block may have only one number */
#endif
#ifndef WAITS
#define WAITS 0 /* whether a refused process may queue */
#endif
#ifndef RENEWS
#define RENEWS 0 /* whether a holder may change the end of its lease */
#endif

/* The total number of times that Fate or the Sweeper does each of these things. */
#ifndef KILLS
#define KILLS 0
#endif
#ifndef ENDS
#define ENDS 0 /* expiries of leases and of unclaimed grants */
#endif
#ifndef LEAVES
#define LEAVES 0 /* abandoned waits */
#endif
#ifndef THREADS
#define THREADS 0 /* leases that another thread of the holder's process ends on the fast path */
#endif
#ifndef LOOKS
#define LOOKS 0 /* operations under the mutex that change nothing */
#endif
#ifndef MOVES
#define MOVES 0 /* entries that a sweep moves */
#endif
#ifndef REMOVALS
#define REMOVALS 0 /* entries that a sweep removes: their locks are free, expired or held by dead processes */
#endif
#ifndef SETS
#define SETS 0 /* values stored over a lock, held or not, and then removed */
#endif
#ifndef VALUES
#define VALUES 0 /* values that appear in free memory or disappear */
#endif
#ifndef BREAKS
#define BREAKS 0 /* grants that another process ends by their leases */
#endif
#define SWEEPS (LOOKS + MOVES + REMOVALS + SETS + VALUES + BREAKS)
#ifndef TICKS_PER_KILL
#define TICKS_PER_KILL 2
#endif

#define FREE 0     /* kFreeOwner */
#define STRANGE 63 /* the bits of a value: neither an owner nor FREE */
#define SWEEPER 3
#define TOKEN(p) ((p) + 1 + 4 * gen[p])
#define SELF TOKEN(me)
#define LIVES(token) (gen[((token)-1) % 4] == ((token)-1) / 4)
#define OWNED(at) (content[at] == 1 && own[at] != FREE)

/* Indexed by slot of memory; slot 0 means none. The first three variables are the word. */
bit mutex_owned[PLACES + 1];
byte own[PLACES + 1];
byte turn[PLACES + 1];
byte granted[PLACES + 1];
byte limit[PLACES + 1];
byte fields[PLACES + 1];  /* the turn number to which Entry::expiry, since, task and generation_high belong */
bit expired[PLACES + 1];
bit reserved[PLACES + 1];
byte content[PLACES + 1]; /* 0: free memory; 1: an entry of a lock; 2: a value */

/* The shard, and the dictionary's count of numbers. */
byte chain[KEYS]; /* the slot of the key's entry */
byte epoch = 0;   /* reuse_epoch */
byte count = 0;
byte mutex = 0;   /* its owner */
byte waiter[PROCESSES];
byte waits_at[PROCESSES]; /* the entry with the queue */
bit woken[PROCESSES];

byte gen[4];

/* Variables of Fate. */
bit doomed[4];
bit leaving[PROCESSES];
bit over[4];

/* Variables that only the proof uses. */
byte inside[KEYS];
byte lease[PROCESSES];
byte last[KEYS];
int given = 0;
byte finished = 0;
byte paid = 0; /* for ticks */
byte kills = 0, ends = 0, leaves = 0;

hidden byte i;

#define IS_QUEUED(p, at) (waiter[p] != 0 && waits_at[p] == (at) && LIVES(waiter[p]))
#if PROCESSES > 2
#define HAS_WAITERS(at) (IS_QUEUED(0, at) || IS_QUEUED(1, at) || IS_QUEUED(2, at))
#else
#define HAS_WAITERS(at) (IS_QUEUED(0, at) || IS_QUEUED(1, at))
#endif
#define WAITER_OF(at) (IS_QUEUED(0, at) -> 0 : (IS_QUEUED(1, at) -> 1 : PROCESSES - 1))
#if KEYS > 1
#define IN_CHAIN(at) (chain[0] == (at) || chain[1] == (at))
#else
#define IN_CHAIN(at) (chain[0] == (at))
#endif
#ifdef MUTANT_PLACE_BELIEVED
#define STILL_THERE (chain[key] == at)
#else
#define STILL_THERE (chain[key] == at && own[at] == SELF && turn[at] == mine)
#endif
#define HAS_NUMBER(limit_, turn_) ((limit_) > (turn_) && (limit_) - (turn_) <= BLOCK)

/* --- under the mutex --- */

/* If a process dies while it holds the mutex, a repair follows. The repair takes over all locks, empties the queues,
   and frees memory that no chain reaches. */
inline take_mutex() {
  d_step {
    (mutex == 0 || !LIVES(mutex)) ->
    if
    :: mutex != 0 ->
       epoch++;
       i = 1;
       do
       :: i <= PLACES && content[i] == 1 ->
          if
          :: IN_CHAIN(i) -> mutex_owned[i] = 1
          :: else -> content[i] = 0
          fi;
          i++
       :: i <= PLACES && content[i] != 1 -> i++
       :: else -> break
       od;
       i = 0;
       do
       :: i < PROCESSES -> waiter[i] = 0; waits_at[i] = 0; i++
       :: else -> break
       od;
       i = 0
    :: else
    fi;
    mutex = SELF
  }
}

inline give_mutex() {
  d_step { mutex = 0; owned_before = 0; owner = 0; number = 0; next = 0; until = 0; complete = 0; lets_pass = 0 }
}

/* From here on the word is `owner`, `number` and MUTEX_OWNED, until the mutex's owner stores a new word. */
inline take_over() {
  d_step {
    owned_before = mutex_owned[at];
#ifndef MUTANT_NO_TAKE_OVER
    mutex_owned[at] = 1;
#endif
    owner = own[at];
    number = turn[at]
  }
}

inline end_grant_of() {
  d_step { mutex_owned[at] = 1; own[at] = FREE; owner = FREE }
}

#ifdef MUTANT_OWNED_DROPPED
#define NEEDS_MUTEX(at) (reserved[at])
#elif defined(MUTANT_RESERVATION_FORGOTTEN)
#define NEEDS_MUTEX(at) (HAS_WAITERS(at) || (reserved[at] && owner != FREE))
#elif defined(MUTANT_OWNED_STAYS)
#define NEEDS_MUTEX(at) (HAS_WAITERS(at) || reserved[at] || owned_before)
#else
#define NEEDS_MUTEX(at) (HAS_WAITERS(at) || reserved[at])
#endif

inline release_word(where) {
  if
  :: NEEDS_MUTEX(where) || lets_pass
  :: !NEEDS_MUTEX(where) && !lets_pass ->
#ifndef MUTANT_ABORTED_GRANT_STAYS
     d_step {
       if
       :: owner == FREE -> granted[where] = number
       :: else
       fi
     }
#endif
     d_step { mutex_owned[where] = 0; own[where] = owner; turn[where] = number }
  fi
}

/* REQUIRES: the lock is free, and the first waiter was woken. */
inline let_pass() {
  if
  :: reserved[at]
  :: else ->
     d_step { granted[at] = number; mutex_owned[at] = 0; own[at] = owner; turn[at] = number; lets_pass = 1 }
  fi
}

/* Checks whether the grant is complete and has expired. */
inline look_if_expired() {
#ifdef MUTANT_GRANTED_IGNORED
  complete = expired[at]
#elif defined(MUTANT_EXPIRY_READ_FIRST)
  complete = expired[at];
  complete = complete && granted[at] == number
#else
  complete = (granted[at] == number);
  d_step {
    if
    :: complete -> complete = expired[at]; assert(!complete || fields[at] == number)
    :: else
    fi
  }
#endif
}

/* REQUIRES: a surrounding d_step. */
inline enter(n) {
  assert(inside[key] == 0);
  inside[key] = SELF;
  lease[me] = n;
  assert(n > last[key]);
  last[key] = n;
#ifdef NUMBERS
  assert(((given >> n) & 1) == 0);
  given = given | (1 << n);
#endif
  assert(chain[key] == at && content[at] == 1)
}
inline leave_lease() {
  if
  :: inside[key] == SELF && lease[me] == mine -> inside[key] = 0
  :: else
  fi
}

/* LockEntry::grant(). The store of the word commits the grant. The limit of a new block of numbers is stored
   afterwards, so a death never leaves the word of one block with the limit of another. */
inline slow_grant(to, reserve) {
  if
  :: d_step { HAS_NUMBER(limit[at], number) -> next = number + 1 }
#ifdef MUTANT_LIMIT_IGNORED
  :: d_step { !HAS_NUMBER(limit[at], number) && number != 0 -> next = number + 1 }
  :: d_step { !HAS_NUMBER(limit[at], number) && number == 0 -> next = count + 1; count = count + BLOCK; until = count }
#else
  :: d_step { !HAS_NUMBER(limit[at], number) -> next = count + 1; count = count + BLOCK; until = count }
#endif
#if SHORT
  :: d_step { !HAS_NUMBER(limit[at], number) -> next = count + 1; count = count + 1; until = count }
#endif
  fi;
#ifdef MUTANT_LIMIT_BEFORE_WORD
  limit[at] = (until != 0 -> until : limit[at]);
#endif
#ifdef MUTANT_WORD_BEFORE_FIELDS
  if
  :: reserve -> d_step { own[at] = to; turn[at] = next; owner = to }
  :: else
  fi;
#endif
  d_step { fields[at] = next; expired[at] = 0; reserved[at] = reserve }
  granted[at] = next;
  d_step {
    mutex_owned[at] = 1;
    own[at] = to;
    turn[at] = next;
    owner = to;
    if
    :: !(reserve) -> mine = next; enter(next)
    :: else
    fi;
    number = next;
    next = 0
  }
  d_step { limit[at] = (until != 0 -> until : limit[at]); until = 0 }
}

/* Wakes a waiter, and lets others pass until it responds; or grants the lock to it. REQUIRES: the lock is free. */
inline offer() {
  if
  :: !HAS_WAITERS(at)
#ifdef MUTANT_PASSES_UNWOKEN
  :: HAS_WAITERS(at)
#else
  :: d_step { HAS_WAITERS(at) -> woken[WAITER_OF(at)] = 1 }
#endif
     let_pass()
#ifdef RESERVES
  :: d_step { HAS_WAITERS(at) -> heir = WAITER_OF(at) }
     slow_grant(waiter[heir], 1);
     d_step { woken[heir] = 1; heir = 0 }
#endif
  fi
}

proctype Process(byte me) {
  byte round, key, at, epoch_before, owner, number, next, until, dead, mine, heir;
  bit owned_before, complete, fits, lets_pass;

life:
  {
    skip;
next_round:
    atomic {
      d_step { at = 0; key = 0; owner = 0; number = 0; dead = 0; mine = 0; owned_before = 0; fits = 0;
        epoch_before = 0 }
      if
      :: round == ROUNDS -> over[me] = 1; finished++; goto end
      :: round < ROUNDS -> round++
      fi
    }
#if KEYS > 1
    if
    :: key = 0
    :: key = 1
    fi;
#endif
    if
    :: skip
    :: goto slow_path
    fi;

    /* try_lock_fast() */
    atomic { /* find() */
      d_step { epoch_before = epoch; at = chain[key] }
      if
      :: at == 0 -> goto slow_path
      :: else
      fi
    }
    atomic {
      d_step { owned_before = mutex_owned[at]; owner = own[at]; number = turn[at] }
      if
#ifdef MUTANT_FAST_PATH_IGNORES_OWNED
      :: owner != FREE -> goto slow_path
#else
      :: owner != FREE || owned_before -> goto slow_path
#endif
      :: else
      fi
    }
    atomic {
#ifdef MUTANT_EPOCH_IGNORED
      fits = 1;
#else
      fits = (epoch == epoch_before);
#endif
      if
      :: fits
      :: else -> goto slow_path
      fi
    }
    atomic {
#ifdef MUTANT_LIMIT_IGNORED
      fits = 1;
#else
      fits = HAS_NUMBER(limit[at], number);
#endif
      if
      :: fits
      :: else -> goto slow_path
      fi
    }
    atomic { /* the compare-and-swap */
      d_step {
#ifdef MUTANT_FAST_PATH_IGNORES_OWNED
        fits = (own[at] == FREE && turn[at] == number);
#else
        fits = (own[at] == FREE && turn[at] == number && !mutex_owned[at]);
#endif
        owned_before = 0;
        owner = 0;
        if
        :: fits ->
#ifdef MUTANT_TURN_STAYS
           mine = number;
#else
           mine = number + 1;
#endif
           own[at] = SELF;
           turn[at] = mine
        :: else
        fi;
        number = 0
      }
      if
      :: fits
      :: else -> goto slow_path
      fi
    }
#ifndef MUTANT_NO_LOOK_AFTER
    if
    :: epoch == epoch_before -> goto taken
    :: else
    fi;
    if /* is_still_there(), which may fail: memory may be freed at any time */
    :: STILL_THERE -> goto taken
    :: true
    fi;
    atomic { /* put_back() */
      if
      :: own[at] == SELF && turn[at] == mine && !mutex_owned[at] ->
         own[at] = FREE; turn[at] = mine - 1; mine = 0;
         goto slow_path
      :: else
      fi
    }
    take_mutex(); /* end_taken_over() */
    d_step {
      if
      :: own[at] == SELF && turn[at] == mine -> own[at] = FREE
      :: else
      fi
    }
    atomic { give_mutex(); mine = 0; goto slow_path }
taken:
#endif
#ifdef MUTANT_GRANTED_BEFORE_FIELDS
    granted[at] = mine;
#endif
    atomic {
      assert(content[at] == 1 && own[at] == SELF && turn[at] == mine && !reserved[at]);
      fields[at] = mine;
      expired[at] = 0
    }
    d_step {
      assert(content[at] == 1 && own[at] == SELF && turn[at] == mine);
      granted[at] = mine;
      enter(mine)
    }
    goto hold;

slow_path: /* attempt_lock() */
    atomic {
      take_mutex();
      d_step { fits = 0; epoch_before = 0; owned_before = 0; at = chain[key];
               waiter[me] = 0; waits_at[me] = 0; woken[me] = 0 }
      if
      :: at == 0
      :: else -> goto found
      fi
    }
    atomic { /* make_lock() */
      if
      :: content[1] == 0 -> at = 1
#if PLACES > 1
      :: content[2] == 0 -> at = 2
#endif
      :: else -> give_mutex(); goto next_round
      fi;
      d_step {
        content[at] = 1;
        mutex_owned[at] = 1; own[at] = FREE; turn[at] = 0; granted[at] = 0; limit[at] = 0;
        fields[at] = 0; expired[at] = 0; reserved[at] = 0
      }
    }
    chain[key] = at;
found:
    atomic {
      take_over();
      if
      :: owner == SELF && reserved[at]
      :: owner == FREE -> goto grant
      :: else -> goto held
      fi
    }
    reserved[at] = 0; /* claim_reserved() */
    d_step { expired[at] = 0; mine = number; enter(mine) }
    release_word(at);
    atomic { give_mutex(); goto hold }

held:
    look_if_expired();
    atomic {
      if
#ifdef MUTANT_BLIND_TAKEOVER
      :: complete || dead != 0
#else
      :: complete || owner == dead
#endif
      :: else -> dead = 0; goto refused
      fi
    }
    atomic { complete = 0; dead = 0; end_grant_of() }
grant:
    slow_grant(SELF, 0);
    release_word(at);
    atomic { give_mutex(); goto hold }

refused:
    if
#if WAITS
    :: d_step { waiter[me] = SELF; waits_at[me] = at; mine = 1 }
#endif
    :: skip
    fi;
#ifdef MUTANT_WAITS_WITHOUT_OWNED
    mutex_owned[at] = owned_before;
#else
    release_word(at);
#endif
    atomic { dead = owner; give_mutex() }
    atomic { /* asks the kernel without holding the mutex */
      if
      :: !LIVES(dead) -> mine = 0; goto slow_path
      :: else -> dead = 0
      fi;
      if
      :: mine == 0 -> goto next_round
      :: else -> mine = 0
      fi
    }
    if
#ifdef MUTANT_WAITER_PASSES
    :: atomic { woken[me] && own[at] == FREE && !mutex_owned[at] -> woken[me] = 0; round--; goto next_round }
#endif
    :: d_step { woken[me] -> woken[me] = 0 }
    :: atomic { leaving[me] -> leaving[me] = 0; goto leave }
    :: d_step { /* time passes: all sleep intervals end */
         timeout ->
         assert(paid > 0);
         paid--;
         i = 0;
         do
         :: i < PROCESSES -> woken[i] = !over[i]; i++
         :: else -> break
         od;
         i = 0
       }
    fi;
    goto slow_path;

hold:
    atomic { owner = 0; number = 0; fits = 0; epoch_before = 0 }
#if RENEWS
    if
    :: goto release
    :: skip
    fi;
    atomic { /* renew(), or any operation of the owner on its grant */
      take_mutex();
      at = chain[key];
      if
      :: at == 0 -> give_mutex(); goto release
      :: else
      fi
    }
    take_over();
    if
    :: owner == SELF && number == mine && !expired[at] ->
#ifdef MAKES_ROOM /* The sweep also reaches this entry, and does not change its MUTEX_OWNED. */
#ifdef MUTANT_SWEEP_RELEASES
       release_word(at);
#endif
       skip;
#endif
       d_step { expired[at] = 0; fields[at] = number }
    :: else
    fi;
    release_word(at);
    give_mutex();
release:
#endif

    /* unlock_fast() */
    atomic {
      d_step { epoch_before = epoch; at = chain[key] }
      if
      :: at == 0 -> goto slow_release
      :: else
      fi
    }
    atomic {
      fits = (own[at] == SELF && turn[at] == mine && granted[at] == mine && !mutex_owned[at]);
      if
      :: fits
      :: !fits || HAS_WAITERS(at) -> goto slow_release /* perhaps the first waiter may not be overtaken any more */
      fi
    }
    atomic {
      if
      :: epoch == epoch_before
      :: else -> goto slow_release
      fi
    }
    atomic {
      d_step {
#ifdef MUTANT_RELEASE_IGNORES_OWNED
        fits = (own[at] == SELF && turn[at] == mine);
#else
        fits = (own[at] == SELF && turn[at] == mine && !mutex_owned[at]);
#endif
        if
        :: fits ->
           assert(content[at] == 1);
           own[at] = FREE;
           leave_lease()
        :: else
        fi
      }
      if
      :: fits -> goto next_round
      :: else
      fi
    }

slow_release: /* unlock_slowly() */
    atomic {
      take_mutex();
      d_step { fits = 0; epoch_before = 0; at = chain[key] }
      if
      :: at == 0 -> assert(inside[key] != SELF || lease[me] != mine); give_mutex(); goto next_round
      :: else
      fi
    }
    atomic {
      take_over();
      if
      :: owner == SELF && number == mine
      :: else -> assert(inside[key] != SELF || lease[me] != mine); goto released /* not_owner */
      fi
    }
    d_step { mutex_owned[at] = 1; own[at] = FREE; owner = FREE; leave_lease() }
#ifndef MUTANT_NO_OFFER
    offer();
#endif
released:
    release_word(at);
    atomic { give_mutex(); goto next_round }

leave: /* lock_leave() */
    atomic {
      take_mutex();
      d_step { at = chain[key]; waiter[me] = 0; waits_at[me] = 0; woken[me] = 0 }
      if
      :: at == 0 -> give_mutex(); goto next_round
      :: else
      fi
    }
    take_over();
    if
    :: owner == SELF && reserved[at] -> end_grant_of()
    :: else
    fi;
    if
    :: owner == FREE -> reserved[at] = 0; offer()
    :: else
    fi;
    release_word(at);
    atomic { give_mutex(); goto next_round }
  } unless { doomed[me] };

  /* A new process replaces the killed one. */
  d_step {
    doomed[me] = 0; woken[me] = 0; leaving[me] = 0;
    round = (round > 0 -> round - 1 : 0);
    at = 0; key = 0; epoch_before = 0; owner = 0; number = 0; next = 0; until = 0; dead = 0; mine = 0; heir = 0;
    owned_before = 0; complete = 0; fits = 0; lets_pass = 0
  }
  goto life;

end:
  skip
}

#if SWEEPS
proctype Sweeper() {
  byte me = SWEEPER, key, at, to, owner, number, next, until, looks, moves, removals, sets, values, breaks;
  bit owned_before, complete, lets_pass;

  {
    skip;
next_sweep:
    atomic { d_step { key = 0; at = 0; to = 0 } }
#if KEYS > 1
    if
    :: key = 0
    :: key = 1
    fi;
#endif
    if
    :: goto end
#if VALUES
    :: values < VALUES ->
       atomic {
         take_mutex();
         values++;
         if
         :: at = 1
#if PLACES > 1
         :: at = 2
#endif
         fi;
         if
         :: content[at] == 0 ->
            d_step {
              content[at] = 2;
              mutex_owned[at] = 0; granted[at] = 0; limit[at] = 0; fields[at] = 0; expired[at] = 0; reserved[at] = 0;
#ifdef LIES
              own[at] = FREE; turn[at] = 1
#else
              own[at] = STRANGE; turn[at] = 0
#endif
            }
            give_mutex();
            goto next_sweep
         :: content[at] == 1 -> give_mutex(); goto next_sweep
         :: content[at] == 2
         fi
       }
       epoch++;
       atomic { content[at] = 0; give_mutex(); goto next_sweep }
#endif
#if LOOKS + MOVES + REMOVALS + SETS + BREAKS
    :: atomic {
         if
         :: looks < LOOKS -> looks++; complete = 0
         :: moves < MOVES -> moves++; to = 1
         :: removals < REMOVALS -> removals++; to = 2
         :: sets < SETS -> sets++; to = 3
         :: breaks < BREAKS -> breaks++; to = 4
         fi
       }
#endif
    fi;
    atomic {
      take_mutex();
      at = chain[key];
      if
      :: at == 0 -> give_mutex(); goto next_sweep
      :: else
      fi;
    }
    atomic {
      take_over();
      if
      :: to == 0 -> release_word(at); give_mutex(); goto next_sweep
      :: to == 1 -> goto move
      :: to == 2 -> goto remove
      :: to == 3 -> goto set
      :: to == 4 -> goto break_grant
      fi
    }

move: /* ClockSweep::visit(), keep(), move() */
    atomic {
#ifdef MUTANT_INCOMPLETE_MOVED
      complete = 1;
#else
      complete = (owner == FREE || granted[at] == number); /* an incomplete grant is pinned */
#endif
      if
      :: !complete || HAS_WAITERS(at) || reserved[at] -> goto leave_it
      :: else
      fi;
      if
      :: at != 1 && content[1] == 0 -> to = 1
#if PLACES > 1
      :: at != 2 && content[2] == 0 -> to = 2
#endif
      :: else -> goto leave_it
      fi
    }
    d_step {
      content[to] = 1;
      mutex_owned[to] = mutex_owned[at]; own[to] = own[at]; turn[to] = turn[at]; granted[to] = granted[at];
      limit[to] = limit[at];
      fields[to] = fields[at]; expired[to] = expired[at]; reserved[to] = reserved[at]
    }
    if
    :: owned_before
    :: !owned_before -> release_word(to)
    fi;
    chain[key] = to;
#ifdef MUTANT_OLD_ENTRY_RELEASED
    mutex_owned[at] = 0;
#endif
    epoch++;
    content[at] = 0;
    atomic { give_mutex(); goto next_sweep }

remove: /* Reclaimer::sweep_chain() */
    if
    :: owner == FREE -> complete = 1
    :: owner != FREE && !LIVES(owner) -> end_grant_of(); complete = 1
    :: owner != FREE && LIVES(owner) -> look_if_expired()
    fi;
    atomic {
      if
      :: !complete || HAS_WAITERS(at) -> goto leave_it
      :: else -> goto cut
      fi
    }

set: /* Dictionary::store() over a lock, and remove() */
    atomic {
#ifdef MUTANT_INCOMPLETE_REMOVED
      complete = 1;
#else
      complete = (owner == FREE || granted[at] == number || !LIVES(owner));
#endif
      if
      :: complete
      :: else -> owned_before = 0; goto leave_it /* is_settled(): waits without holding the mutex */
      fi
    }
cut:
    atomic { chain[key] = 0; inside[key] = 0 }
#ifdef MUTANT_REMOVED_WITHOUT_OWNED
    mutex_owned[at] = 0;
#endif
#ifndef MUTANT_EPOCH_IGNORED
    epoch++;
#endif
    d_step {
      content[at] = 0;
      i = 0;
      do
      :: i < PROCESSES ->
         if
         :: waits_at[i] == at && waiter[i] != 0 -> woken[i] = 1; waiter[i] = 0; waits_at[i] = 0
         :: else
         fi;
         i++
      :: else -> break
      od;
      i = 0
    }
    atomic { give_mutex(); goto next_sweep }

break_grant: /* break_lease(), on any lease. Where this step ends the grant, renew() and similar calls write a field. */
    atomic {
#ifdef MUTANT_INCOMPLETE_BROKEN
      complete = 1;
#else
      complete = (owner == FREE || granted[at] == number || !LIVES(owner));
#endif
      if
      :: owner != FREE && complete
      :: else -> owned_before = 0; goto leave_it /* judge_grant(): waits without holding the mutex */
      fi
    }
    atomic { end_grant_of(); inside[key] = 0 }
    if
    :: d_step { HAS_WAITERS(at) -> woken[WAITER_OF(at)] = 1 }
       let_pass()
    :: else
    fi;
    owned_before = 0;

leave_it: /* A sweep releases only the words of locks that it has taken over itself. */
    if
    :: owned_before
    :: !owned_before -> release_word(at)
    fi;
    atomic { give_mutex(); goto next_sweep }
  } unless { doomed[me] };
end:
  atomic {
    d_step {
      doomed[me] = 0; over[me] = 1;
      key = 0; at = 0; to = 0; owner = 0; number = 0; next = 0; owned_before = 0; complete = 0; lets_pass = 0;
      looks = 0; moves = 0; removals = 0; sets = 0; values = 0; breaks = 0
    }
  }
}
#endif

/* The things that Fate may do to one process, or to the lock of one key. */
#define KILL(p)                                                        \
  d_step {                                                             \
    kills < KILLS && !over[p] && !doomed[p] ->                         \
    i = 0;                                                             \
    do                                                                 \
    :: i < KEYS -> inside[i] = (inside[i] == TOKEN(p) -> 0 : inside[i]); i++ \
    :: else -> break                                                   \
    od;                                                                \
    i = 0;                                                             \
    doomed[p] = 1; gen[p]++; kills++; paid = paid + TICKS_PER_KILL     \
  }
#define END_LEASE(k)                                                                                           \
  d_step {                                                                                                     \
    ends < ENDS && chain[k] != 0 && OWNED(chain[k]) && !expired[chain[k]] && granted[chain[k]] == turn[chain[k]] -> \
    ends++; expired[chain[k]] = 1;                                                                             \
    inside[k] = (inside[k] == own[chain[k]] -> 0 : inside[k])                                                  \
  }
#define LEAVE(p) d_step { leaves < LEAVES && waiter[p] != 0 && !leaving[p] -> leaves++; leaving[p] = 1 }
#define RELEASE_BY_THREAD(p)                                                                         \
  d_step {                                                                                           \
    threads < THREADS && inside[0] == TOKEN(p) && !mutex_owned[chain[0]] && own[chain[0]] == TOKEN(p) &&    \
    turn[chain[0]] == lease[p] -> threads++; own[chain[0]] = FREE; inside[0] = 0                     \
  }

proctype Fate() {
  byte me, key, at, owner, number, next, until, threads;
  bit owned_before, complete, lets_pass;

  do
#if KILLS
  :: KILL(0)
  :: KILL(1)
#if PROCESSES > 2
  :: KILL(2)
#endif
#if SWEEPS
  :: KILL(SWEEPER)
#endif
#endif
#if ENDS
  :: END_LEASE(0)
#if KEYS > 1
  :: END_LEASE(1)
#endif
#endif
#if LEAVES
  :: LEAVE(0)
  :: LEAVE(1)
#if PROCESSES > 2
  :: LEAVE(2)
#endif
#endif
#if THREADS
  :: RELEASE_BY_THREAD(0)
  :: RELEASE_BY_THREAD(1)
#endif
  :: break
  od;
  atomic { threads = 0; finished == PROCESSES }
  take_mutex();
  at = chain[0];
  if
  :: at != 0 ->
     take_over();
     assert(owner == FREE || !LIVES(owner) || expired[at]);
     end_grant_of();
     reserved[at] = 0;
     release_word(at);
     assert(!mutex_owned[at])
  :: else
  fi;
#ifdef LIES
  assert(content[1] != 2 || (own[1] == FREE && turn[1] == 1));
#endif
  give_mutex()
}

init {
  atomic {
    content[1] = 1;
    chain[0] = 1;
    own[1] = FREE;
    turn[1] = 1;
    granted[1] = 1;
    fields[1] = 1;
#ifdef EXHAUSTED /* the block of numbers of the first lock */
    limit[1] = 1;
    count = 1;
#else
    limit[1] = BLOCK;
    count = BLOCK;
#endif
    last[0] = 1;
    run Process(0);
    run Process(1);
#if PROCESSES > 2
    run Process(2);
#endif
#if SWEEPS
    run Sweeper();
#endif
    run Fate()
  }
}
