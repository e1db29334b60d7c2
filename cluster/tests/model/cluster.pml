/* Models one lock across several machines: how their agents get the lock from a store, pass it on and lose it.

   The store has the key of the lock, a queue with one entry per waiting lease, and a notification key per lease
   ("bell"), which only the machine with that lease watches. Each transaction is one step of the store. The requests,
   the answers and the notifications take time to arrive. MACHINES machines, with one lease and one agent each, take the
   lock TAKES times. Between any two steps, Fate may repeat requests, lose notifications, restart agents, end leases,
   crash machines and break locks.

   A machine has two sides. Its tasks take the lock locally while the machine owns it (`standing`), without a request to
   the store. Its agent communicates with the store. Both sides meet in shared memory: `wish`, `inuse`, `standing`,
   `base`, `valid`. When an agent restarts, it loses its knowledge, but not the shared memory. Its earlier requests may
   still reach the store.

   Each transaction for the lease `me` has a guard, and an effect if the guard is true. If the guard is false, the
   transaction returns the lock's key and the queue:

     ask       no lock, no queue          put lock; else: put queue/me
     try       no lock, no queue          put lock
     note      lock unchanged since R     ring the holder's bell: {note, R}
     transfer  lock unchanged since R,    put lock for w; erase queue/w; ring w's bell: {grant, R};
               entry of w is the one seen if wanted: put queue/me
     release   lock unchanged, no queue   erase lock
     leave     entry of me is the one     erase queue/me
     claim     no lock, entry is the one  put lock; erase queue/me
     touch     lock unchanged since R     put lock: R grows; read the queue
     look      -                          read lock, queue and queue/me: polls, verification, adoption after a restart
     break     lock unchanged since R     transfer or release by an operator; ring the holder's bell: {broken, R}

   R is the revision of the lock's last put. `revision` counts no other changes. So an answer with the revision R shows
   the outcome of all grants up to R (`seen`).

   The model shows:

   - Two machines never use the lock at the same time while their leases last, unless an operator broke a grant
     (`enter`). Time is not modelled, except for one promise: a machine notices the end of its lease before the store
     does. So Fate clears `valid` first, and the store drops the keys of the lease at any later time.
   - Fencing tokens rise: the base of each tenure is greater than the bases of all earlier tenures (`enter`).
   - No machine waits forever. Time passes only when no machine, request or notification can take a step (STANDSTILL);
     then all machines poll. If a task still waits, a message was lost, and the poll must be paid for. Lost
     notifications, repeated requests, restarts, ends of leases, crashes and breaks pay, as defined by PAYS_... So
     without a fault, no wait needs a poll, and with faults, no wait needs more polls than the faults pay for.
   - Every run ends: the states have no cycle.

   -DMUTANT_... plants a fault. The runner (tests/model/run) requires that Spin finds each fault.

   Not modelled: several keys (a transaction concerns one), competition between the tasks of one machine (lock_word.pml,
   wait_core.pml), the lists of waiters that notifications carry (a wrong list makes its transfer fail, and the answer
   has the queue), the store's loss of acknowledged changes, and several operators. */

#ifndef MACHINES
#define MACHINES 2
#endif
#ifndef TAKES
#define TAKES 1 /* per machine */
#endif
#ifndef EXTRA
#define EXTRA 0 /* additional takes of machine 0 */
#endif

/* The total number of times that each of these things happens. */
#ifndef TOUCHES
#define TOUCHES 0 /* touches because the local count is half used up */
#endif
#ifndef TRIES
#define TRIES 0 /* wishes that do not wait */
#endif
#ifndef LEAVES
#define LEAVES 0 /* abandoned wishes */
#endif
#ifndef POLLS
#define POLLS 0 /* polls before a machine needs them */
#endif
#ifndef REPEATS
#define REPEATS 0 /* requests sent again after a timeout; the first copy may be executed earlier, later or never */
#endif
#ifndef LOSSES
#define LOSSES 0 /* lost notifications */
#endif
#ifndef RESTARTS
#define RESTARTS 0 /* restarts of agents */
#endif
#ifndef ENDS
#define ENDS 0 /* ended leases of machines that continue */
#endif
#ifndef CRASHES
#define CRASHES 0 /* crashed machines */
#endif
#ifndef BREAKS
#define BREAKS 0
#endif

/* The number of polls for which each fault pays. */
#ifndef PAYS_REPEAT
#define PAYS_REPEAT 1
#endif
#ifndef PAYS_LOSS
#define PAYS_LOSS 1
#endif
#ifndef PAYS_RESTART
#define PAYS_RESTART 1 /* only if a request was under way */
#endif
#ifndef PAYS_END
#define PAYS_END 1
#endif
#ifndef PAYS_CRASH
#define PAYS_CRASH 1
#endif
#ifndef PAYS_BREAK
#define PAYS_BREAK 1
#endif

#define NOBODY 0
#define LEASES (MACHINES * (1 + ENDS))
#define LEASE(m) (1 + (m) + MACHINES * epoch[m])
#define MACHINE(lease) (((lease)-1) % MACHINES)

/* The store. */
byte lock_lease = NOBODY; /* the lease of the lock's key, or NOBODY if there is no key */
byte revision = 0;        /* of the last put of the lock's key, even after its deletion */
byte entries = 0;         /* the queue's length; entries are in order of creation */
byte queue_lease[LEASES + 1];
byte queue_born[LEASES + 1]; /* the entry's number on its machine, which stands for its create revision */
bit dropped[LEASES + 1];     /* leases that are gone, with their keys */

#define UNCHANGED(since) (lock_lease != NOBODY && revision == (since))

/* The shared memory of each machine, which outlives the agent. */
byte epoch[MACHINES];
bit valid[MACHINES]; /* whether the lease has not ended, by the machine's own clock */
bit gone[MACHINES];  /* crashed */
byte takes[MACHINES];
bit wish[MACHINES];  /* whether a task waits */
bit tries[MACHINES]; /* whether that task gives up if a different machine has the lock */
bit inuse[MACHINES]; /* whether a task has the lock */
bit standing[MACHINES];
byte base[MACHINES]; /* of the fencing tokens: the R of the tenure */

/* The agents. */
mtype = { NONE, WAITS, HOLDS, ADOPTS };
mtype = { UNKNOWN, EMPTY, SOME };
mtype state[MACHINES];
byte seen[MACHINES];    /* older grants and notes are ignored */
byte since[MACHINES];   /* in HOLDS: R */
byte offered[MACHINES]; /* the R of the last transfer or release, which may still be under way */
mtype others[MACHINES]; /* in HOLDS: what the agent knows about the queue */
byte next_lease[MACHINES], next_born[MACHINES]; /* if others is SOME: the first entry */
byte born[MACHINES];    /* in WAITS: the machine's own entry */
bit claims[MACHINES];   /* in WAITS: whether the machine is the first and there is no lock */
bit served[MACHINES];   /* whether a task had the lock in this tenure */
bit lingers[MACHINES];  /* whether it keeps an unused lock until a different machine wants it */
bit poll[MACHINES];

/* The requests in flight: the agent's current request, a copy that the agent does not know about, and a note. */
mtype = { ASK, TRY, TRANSFER, RELEASE, LEAVE, CLAIM, TOUCH, LOOK };
typedef Request {
  mtype kind;
  byte lease;
  byte since;
  byte to, born;
  bit again /* in TRANSFER: whether the machine queues again behind the others */
};
mtype = { IDLE, SENT, ANSWERED };
mtype phase[MACHINES];
Request request[MACHINES];
Request stray[MACHINES];
byte note[MACHINES]; /* the note's R */

typedef Answer {
  bit ok;
  byte lock, revision;
  byte first, first_born; /* of the queue */
  byte mine               /* the machine's own entry, or 0 */
};
Answer answer[MACHINES];

/* Bells: the R of each notification, or 0. */
byte granted[MACHINES], noted[MACHINES], broken[MACHINES];

/* Variables that only the proof uses. */
byte fence = 0;             /* the greatest base in use so far */
byte robbed[MACHINES];      /* R of the tenure that an operator broke */
byte births[MACHINES];
byte paid = 0;
byte touches = 0, trials = 0, polls = 0, leaves = 0, repeats = 0, losses = 0, restarts = 0, ends = 0, crashes = 0, breaks = 0;
byte operator = 0;          /* the R that the operator saw */

hidden byte i, k, ok;

/* The store's steps. All of them require a surrounding atomic step. */

inline find_entry(lease_of) { /* sets i to the entry's index, or to `entries` */
  i = 0;
  do
  :: i < entries && queue_lease[i] != lease_of -> i++
  :: else -> break
  od
}

inline erase_entry_at_i() {
  do
  :: i + 1 < entries ->
     queue_lease[i] = queue_lease[i + 1];
     queue_born[i] = queue_born[i + 1];
     i++
  :: else -> break
  od;
  queue_lease[i] = NOBODY;
  queue_born[i] = 0;
  entries--
}

inline put_entry(lease_of) { /* an existing entry keeps its create revision */
  find_entry(lease_of);
  if
  :: i == entries ->
     births[MACHINE(lease_of)]++;
     queue_lease[i] = lease_of;
     queue_born[i] = births[MACHINE(lease_of)];
     entries++
  :: else
  fi
}

inline put_lock(lease_of) {
  revision++;
  lock_lease = lease_of
}

/* No machine watches the notification key of a former lease. */
#define RING(bell, lease_of, since_of)                                                       \
  if                                                                                         \
  :: valid[MACHINE(lease_of)] && (lease_of) == LEASE(MACHINE(lease_of)) ->                   \
     bell[MACHINE(lease_of)] = since_of                                                      \
  :: else                                                                                    \
  fi

#ifdef MUTANT_UNGUARDED_TRANSFER
#define TRANSFER_GUARD(q) (lock_lease != NOBODY)
#else
#define TRANSFER_GUARD(q) UNCHANGED(q.since)
#endif
#ifdef MUTANT_UNGUARDED_RELEASE
#define RELEASE_GUARD(q) (lock_lease != NOBODY)
#else
#define RELEASE_GUARD(q) UNCHANGED(q.since)
#endif

/* Sets `ok` to whether the guard was true. A transaction that names an ended lease is refused completely. */
inline execute(q) {
  ok = 0;
  if
  :: dropped[q.lease]
  :: !dropped[q.lease] && (q.kind == ASK || q.kind == TRY) ->
     if
     :: lock_lease == NOBODY && entries == 0 -> put_lock(q.lease); ok = 1
     :: !(lock_lease == NOBODY && entries == 0) && q.kind == ASK -> put_entry(q.lease)
     :: else
     fi
  :: !dropped[q.lease] && q.kind == TRANSFER ->
     find_entry(q.to);
     if
     :: TRANSFER_GUARD(q) && i < entries && queue_born[i] == q.born ->
        erase_entry_at_i();
        put_lock(q.to);
        RING(granted, q.to, revision);
        if
        :: q.again -> put_entry(q.lease)
        :: else
        fi;
        ok = 1
     :: else
     fi
  :: !dropped[q.lease] && q.kind == RELEASE ->
     if
     :: RELEASE_GUARD(q) && entries == 0 -> lock_lease = NOBODY; ok = 1
     :: else
     fi
  :: !dropped[q.lease] && (q.kind == LEAVE || q.kind == CLAIM) ->
     find_entry(q.lease);
     if
     :: i < entries && queue_born[i] == q.born && (q.kind == LEAVE || lock_lease == NOBODY) ->
        erase_entry_at_i();
        if
        :: q.kind == CLAIM -> put_lock(q.lease)
        :: else
        fi;
        ok = 1
     :: else
     fi
  :: !dropped[q.lease] && q.kind == TOUCH ->
     if
     :: UNCHANGED(q.since) -> put_lock(lock_lease); ok = 1
     :: else
     fi
  :: !dropped[q.lease] && q.kind == LOOK
  fi
}

inline read_answer(m) {
  find_entry(request[m].lease);
  answer[m].mine = (i < entries -> queue_born[i] : 0);
  answer[m].ok = ok;
  answer[m].lock = lock_lease;
  answer[m].revision = revision;
  answer[m].first = (entries > 0 -> queue_lease[0] : NOBODY);
  answer[m].first_born = (entries > 0 -> queue_born[0] : 0)
}

inline forget(q) {
  q.kind = 0;
  q.lease = 0;
  q.since = 0;
  q.to = 0;
  q.born = 0;
  q.again = 0
}

inline copy_to_stray(m) {
  stray[m].kind = request[m].kind;
  stray[m].lease = request[m].lease;
  stray[m].since = request[m].since;
  stray[m].to = request[m].to;
  stray[m].born = request[m].born;
  stray[m].again = request[m].again
}

inline forget_answer(m) {
  answer[m].ok = 0;
  answer[m].lock = 0;
  answer[m].revision = 0;
  answer[m].first = 0;
  answer[m].first_born = 0;
  answer[m].mine = 0
}

/* The agent's request or the answer is still in flight, but the agent will not get the answer. */
inline abandon_request(m) {
  if
  :: phase[m] == SENT && stray[m].kind == 0 -> copy_to_stray(m)
  :: else
  fi;
  phase[m] = IDLE;
  forget(request[m]);
  forget_answer(m)
}

inline forget_knowledge(m) {
  seen[m] = 0;
  since[m] = 0;
  offered[m] = 0;
  others[m] = UNKNOWN;
  next_lease[m] = NOBODY;
  next_born[m] = 0;
  born[m] = 0;
  claims[m] = 0;
  served[m] = 0;
  lingers[m] = 0;
  poll[m] = 0;
  granted[m] = 0;
  noted[m] = 0;
  broken[m] = 0
}

/* The agent's knowledge. */

/* The machine has had the lock since R. Local grants may follow if no transaction that gives the lock away is in
   flight. */
inline hold(m, since_of) {
  if
  :: state[m] != HOLDS -> served[m] = 0; others[m] = UNKNOWN
  :: else
  fi;
  state[m] = HOLDS;
  since[m] = since_of;
  born[m] = 0;
  claims[m] = 0;
  if
  :: since[m] > offered[m] -> standing[m] = 1; base[m] = since[m]
  :: else
  fi
}

/* The machine does not have the lock, even if a task believes so. */
inline hold_not(m) {
  standing[m] = 0;
  inuse[m] = 0;
  since[m] = 0;
  others[m] = UNKNOWN;
  next_lease[m] = NOBODY;
  next_born[m] = 0;
  lingers[m] = 0;
  served[m] = 0
}

#ifdef MUTANT_OLD_ANSWER_ACCEPTED
#define IS_MINE(m, lease) ((lease) != NOBODY && MACHINE(lease) == (m))
#else
#define IS_MINE(m, lease) ((lease) == LEASE(m))
#endif

inline learn_queue(m) {
#ifdef MUTANT_OWN_ENTRY_IGNORED
  others[m] = (answer[m].first == NOBODY || answer[m].first == LEASE(m) -> EMPTY : SOME);
#else
  others[m] = (answer[m].first == NOBODY -> EMPTY : SOME);
#endif
  next_lease[m] = answer[m].first;
  next_born[m] = answer[m].first_born
}

#ifdef MUTANT_CLAIM_QUEUE_KNOWN
#define READS_NO_QUEUE(kind, is_ok) ((kind) == TRANSFER && (is_ok))
#else
#define READS_NO_QUEUE(kind, is_ok) ((is_ok) && ((kind) == CLAIM || (kind) == TRANSFER))
#endif

inline learn(m) {
  poll[m] = 0;
  seen[m] = answer[m].revision;
  if
  :: state[m] == ADOPTS ->
     state[m] = NONE;
#ifndef MUTANT_ADOPTED_WITHOUT_TOUCH
     offered[m] = answer[m].revision
#endif
  :: else
  fi;
  ok = IS_MINE(m, answer[m].lock);
#ifdef MUTANT_LEAVE_FORGETS_GRANT
  ok = (request[m].kind == LEAVE -> 0 : ok);
#endif
#ifdef MUTANT_REFUSED_TOUCH_IS_LOSS
  ok = (request[m].kind == TOUCH && !answer[m].ok -> 0 : ok);
#endif
  if
  :: ok ->
     hold(m, answer[m].revision);
     if
     :: READS_NO_QUEUE(request[m].kind, answer[m].ok) -> others[m] = UNKNOWN
#ifdef MUTANT_CLAIM_QUEUE_KNOWN
     :: request[m].kind == CLAIM && answer[m].ok -> others[m] = EMPTY
#endif
#ifdef MUTANT_TOUCH_KEEPS_QUEUE
     :: request[m].kind == TOUCH && answer[m].ok -> skip
#endif
#ifdef MUTANT_ADOPTED_QUEUE_KNOWN
     :: request[m].again -> others[m] = EMPTY
#endif
     :: else -> learn_queue(m)
     fi
  :: else ->
     hold_not(m);
     born[m] = answer[m].mine;
     state[m] = (answer[m].mine != 0 -> WAITS : NONE);
     claims[m] = (answer[m].mine != 0 && answer[m].first == LEASE(m) && answer[m].lock == NOBODY);
     if
     :: answer[m].mine != 0 && answer[m].first == LEASE(m) && answer[m].lock != NOBODY -> note[m] = answer[m].revision
     :: else
     fi;
     if
     :: request[m].kind == TRY -> wish[m] = 0; tries[m] = 0
     :: else
     fi
  fi;
  phase[m] = IDLE;
  forget(request[m]);
  forget_answer(m)
}

/* Bells. */

inline hear_grant(m) {
  if
  :: granted[m] > seen[m] ->
     seen[m] = granted[m];
     hold(m, granted[m]);
#ifdef MUTANT_GRANT_QUEUE_KNOWN
     others[m] = EMPTY
#else
     others[m] = UNKNOWN
#endif
  :: else
  fi;
  granted[m] = 0
}

inline hear_note(m) {
  if
  :: state[m] == HOLDS && noted[m] == since[m] -> others[m] = UNKNOWN
#ifndef MUTANT_UNKNOWN_NOTE_DROPPED
  /* The machine owns the lock without knowing this. */
  :: !(state[m] == HOLDS && noted[m] == since[m]) && noted[m] > seen[m] -> poll[m] = 1
#endif
  :: else
  fi;
  noted[m] = 0
}

inline hear_broken(m) {
  if
  :: broken[m] > seen[m] -> seen[m] = broken[m]
  :: else
  fi;
  if
  :: state[m] == HOLDS && broken[m] == since[m] -> state[m] = NONE; hold_not(m)
  :: else
  fi;
  broken[m] = 0
}

/* The agent's next step. At most one of these conditions is true. */
#define READY(m) (valid[m] && phase[m] == IDLE)
#define MUST_LOOK(m) (READY(m) && (state[m] == ADOPTS || poll[m] || (state[m] == HOLDS && others[m] == UNKNOWN)))
#define MUST_ASK(m) (READY(m) && !MUST_LOOK(m) && state[m] == NONE && wish[m])
#define MUST_LEAVE(m) (READY(m) && !MUST_LOOK(m) && state[m] == WAITS && !wish[m])
/* If a copy of an ask arrives when its machine already has the lock, the copy leaves an entry. */
#define MUST_CLEAN(m) (READY(m) && !MUST_LOOK(m) && state[m] == HOLDS && others[m] == SOME && next_lease[m] == LEASE(m))
#define MUST_CLAIM(m) (READY(m) && !MUST_LOOK(m) && state[m] == WAITS && wish[m] && claims[m])
#define FREE(m) (READY(m) && !MUST_LOOK(m) && !MUST_CLEAN(m) && state[m] == HOLDS && !inuse[m])
#define MUST_TRANSFER(m) (FREE(m) && others[m] == SOME && (!wish[m] || served[m]))
#define MUST_TOUCH(m) (FREE(m) && wish[m] && !standing[m] && !MUST_TRANSFER(m))
#define MUST_RELEASE(m) (FREE(m) && others[m] == EMPTY && !wish[m] && !lingers[m])
#define MAY_TOUCH(m) (READY(m) && !MUST_LOOK(m) && !MUST_CLEAN(m) && state[m] == HOLDS && standing[m] && touches < TOUCHES)
#define CAN_HEAR(m) (READY(m) && state[m] != ADOPTS)
#define CAN_ENTER(m) (valid[m] && standing[m] && wish[m] && !inuse[m])

inline send(m, kind_of) {
  request[m].kind = kind_of;
  request[m].lease = LEASE(m);
  phase[m] = SENT
}

/* Before the agent gives the lock away, it takes the lock locally, as a fair waiter does. */
inline send_offer(m, kind_of) {
#ifndef MUTANT_STANDS_WHILE_OFFERED
  standing[m] = 0;
#endif
#ifndef MUTANT_STANDS_AFTER_REFUSAL
  offered[m] = since[m];
#endif
  request[m].since = since[m];
  send(m, kind_of)
}

/* A task takes the lock. */
#define IN_USE(m) (inuse[m] && valid[m] && (robbed[m] == 0 || base[m] > robbed[m]))
inline enter(m) {
  wish[m] = 0;
  tries[m] = 0;
  served[m] = 1;
  inuse[m] = 1;
  k = 0;
  do
  :: k < MACHINES -> assert(k == m || !IN_USE(k) || !IN_USE(m)); k++
  :: else -> break
  od;
  if
  :: IN_USE(m) ->
     assert(base[m] >= fence);
     fence = base[m]
  :: else
  fi
}

proctype Tasks(byte m) {
end:
  do
  :: atomic {
       takes[m] > 0 && !wish[m] && !inuse[m] && !gone[m] ->
       takes[m]--;
       wish[m] = 1;
       if
       :: true
       :: trials < TRIES -> trials++; tries[m] = 1
       fi
     }
  :: d_step { CAN_ENTER(m) -> enter(m) }
  :: atomic {
       inuse[m] -> inuse[m] = 0;
       if
       :: lingers[m] = 0
       :: lingers[m] = 1
       fi
     }
  :: d_step { leaves < LEAVES && wish[m] && !gone[m] -> leaves++; wish[m] = 0; tries[m] = 0 }
  od
}

proctype Agent(byte m) {
end:
  do
  :: d_step { valid[m] && phase[m] == ANSWERED -> learn(m) }
  :: d_step { CAN_HEAR(m) && granted[m] != 0 -> hear_grant(m) }
  :: d_step { CAN_HEAR(m) && noted[m] != 0 -> hear_note(m) }
#ifdef MUTANT_EARLY_NOTE_DROPPED
  :: d_step { valid[m] && phase[m] != IDLE && state[m] != HOLDS && noted[m] != 0 -> noted[m] = 0 }
#endif
  :: d_step { valid[m] && broken[m] != 0 -> hear_broken(m) }

  :: d_step {
       MUST_LOOK(m) -> send(m, LOOK);
#ifdef MUTANT_ADOPTED_QUEUE_KNOWN
       request[m].again = (state[m] == ADOPTS)
#endif
     }
  :: d_step {
       MUST_ASK(m) -> send(m, (tries[m] -> TRY : ASK));
#ifdef MUTANT_STANDS_BEFORE_EVIDENCE
       standing[m] = 1
#endif
     }
  :: d_step { MUST_LEAVE(m) -> request[m].born = born[m]; send(m, LEAVE) }
  :: d_step { MUST_CLEAN(m) -> request[m].born = next_born[m]; send(m, LEAVE) }
  :: d_step { MUST_CLAIM(m) -> request[m].born = born[m]; send(m, CLAIM) }
  :: d_step {
       MUST_TRANSFER(m) ->
       request[m].to = next_lease[m];
       request[m].born = next_born[m];
       request[m].again = wish[m];
       send_offer(m, TRANSFER)
     }
  :: d_step { MUST_RELEASE(m) -> send_offer(m, RELEASE) }
  :: d_step { MUST_TOUCH(m) -> request[m].since = since[m]; send(m, TOUCH) }
  :: d_step { MAY_TOUCH(m) -> touches++; request[m].since = since[m]; send(m, TOUCH) }

  /* Begins a new lease after a loss. Nothing about the old lease counts any more. */
  :: d_step {
       !valid[m] && !gone[m] ->
#ifndef MUTANT_OLD_ANSWER_ACCEPTED
       abandon_request(m);
#endif
       forget_knowledge(m);
       state[m] = NONE;
       epoch[m]++;
       valid[m] = 1
     }
  od
}

/* Requests of machine m reach the store, which also drops the keys of ended leases. */
proctype Store(byte m) {
end:
  do
  :: d_step { phase[m] == SENT -> execute(request[m]); read_answer(m); phase[m] = ANSWERED }
  :: d_step { stray[m].kind != 0 -> execute(stray[m]); forget(stray[m]) }
  :: stray[m].kind != 0 -> d_step { forget(stray[m]) }
  :: d_step {
       note[m] != 0 ->
       if
       :: UNCHANGED(note[m]) -> RING(noted, lock_lease, note[m])
       :: else
       fi;
       note[m] = 0
     }
  od
}

#define LEASE_OF(m, number) (1 + (m) + MACHINES * (number))
#ifdef MUTANT_DEADLINE_IGNORED
#define ENDED(m, number) (epoch[m] >= (number) && ((epoch[m] > (number) || !valid[m]) || ends < ENDS))
#else
#define ENDED(m, number) (epoch[m] > (number) || (epoch[m] == (number) && !valid[m]))
#endif
#define DROP(m, number)                                                 \
  d_step {                                                              \
    ENDED(m, number) && !dropped[LEASE_OF(m, number)] ->                \
    dropped[LEASE_OF(m, number)] = 1;                                   \
    find_entry(LEASE_OF(m, number));                                    \
    if                                                                  \
    :: i < entries -> erase_entry_at_i()                                \
    :: else                                                             \
    fi;                                                                 \
    lock_lease = (lock_lease == LEASE_OF(m, number) -> NOBODY : lock_lease) \
  }
#define LOSE(bell) \
  d_step { losses < LOSSES && bell != 0 -> losses++; paid = paid + PAYS_LOSS; bell = 0 }

/* Faults of machine m, and the end of its leases at the store. */
proctype Fate(byte m) {
end:
  do
  :: d_step { polls < POLLS && valid[m] && (state[m] == WAITS || state[m] == HOLDS) && !poll[m] -> polls++; poll[m] = 1 }
  :: d_step {
       repeats < REPEATS && phase[m] == SENT && stray[m].kind == 0 ->
       repeats++;
       paid = paid + PAYS_REPEAT;
       copy_to_stray(m)
     }
  :: d_step {
       repeats < REPEATS && phase[m] == ANSWERED ->
       repeats++;
       paid = paid + PAYS_REPEAT;
       forget_answer(m);
       phase[m] = SENT
     }
  :: LOSE(granted[m])
  :: LOSE(noted[m])
  :: LOSE(broken[m])
  :: d_step {
       restarts < RESTARTS && valid[m] && state[m] != ADOPTS ->
       restarts++;
       paid = paid + (phase[m] == IDLE -> 0 : PAYS_RESTART);
       abandon_request(m);
       forget_knowledge(m);
       state[m] = ADOPTS
     }
  :: d_step {
       ends < ENDS && valid[m] ->
       ends++;
       paid = paid + PAYS_END;
       valid[m] = 0;
       standing[m] = 0;
       inuse[m] = 0
     }
#ifdef MUTANT_UNSTICKY_LOSS
  :: d_step { !valid[m] && !gone[m] -> valid[m] = 1; standing[m] = (state[m] == HOLDS && since[m] > offered[m]) }
#endif
  :: d_step {
       crashes < CRASHES && !gone[m] ->
       crashes++;
       paid = paid + PAYS_CRASH;
       valid[m] = 0;
       gone[m] = 1;
       standing[m] = 0;
       inuse[m] = 0;
       wish[m] = 0;
       tries[m] = 0;
       takes[m] = 0;
       abandon_request(m);
       forget_knowledge(m)
     }
  :: DROP(m, 0)
#if ENDS > 0
  :: DROP(m, 1)
#endif
#if ENDS > 1
  :: DROP(m, 2)
#endif
  od
}

#ifdef MUTANT_UNGUARDED_BREAK
#define BREAK_GUARD (lock_lease != NOBODY)
#else
#define BREAK_GUARD UNCHANGED(operator)
#endif

/* An operator sees a grant, and breaks it. */
proctype Operator() {
end:
  do
  :: d_step { breaks < BREAKS && operator == 0 && lock_lease != NOBODY -> operator = revision }
  :: d_step {
       operator != 0 ->
       breaks++;
       if
       :: BREAK_GUARD ->
          paid = paid + PAYS_BREAK;
          robbed[MACHINE(lock_lease)] = operator;
          RING(broken, lock_lease, operator);
          if
          :: entries > 0 ->
             put_lock(queue_lease[0]);
             i = 0;
             erase_entry_at_i();
             RING(granted, lock_lease, revision)
          :: else -> lock_lease = NOBODY
          fi
       :: else
       fi;
       operator = 0
     }
  od
}

#define QUIET(m) (granted[m] == 0 && noted[m] == 0 && broken[m] == 0)
#define ACTS(m) \
  (MUST_LOOK(m) || MUST_ASK(m) || MUST_LEAVE(m) || MUST_CLEAN(m) || MUST_CLAIM(m) || MUST_TRANSFER(m) || MUST_TOUCH(m) || MUST_RELEASE(m))
#define BUSY(m) (inuse[m] || CAN_ENTER(m) || (takes[m] > 0 && !wish[m]))
#define HANGS(m, number) (ENDED(m, number) && !dropped[LEASE_OF(m, number)])
#if ENDS > 1
#define LEFT_OVER(m) (HANGS(m, 0) || HANGS(m, 1) || HANGS(m, 2))
#elif ENDS > 0
#define LEFT_OVER(m) (HANGS(m, 0) || HANGS(m, 1))
#else
#define LEFT_OVER(m) HANGS(m, 0)
#endif
#define STILL(m) \
  (note[m] == 0 && !LEFT_OVER(m) && (gone[m] || (valid[m] && phase[m] == IDLE && QUIET(m) && !ACTS(m) && !BUSY(m))))
#if MACHINES > 2
#define STANDSTILL (STILL(0) && STILL(1) && STILL(2))
#define WAITING (wish[0] || wish[1] || wish[2])
#else
#define STANDSTILL (STILL(0) && STILL(1))
#define WAITING (wish[0] || wish[1])
#endif

proctype Clock() {
end:
  do
  :: d_step {
       STANDSTILL && WAITING ->
       assert(paid > 0);
       paid--;
       k = 0;
       do
#if defined(MUTANT_HOLDERS_DO_NOT_POLL)
       :: k < MACHINES -> poll[k] = (valid[k] && state[k] == WAITS); k++
#elif !defined(MUTANT_NO_POLL)
       :: k < MACHINES && (state[k] == WAITS || state[k] == HOLDS) -> poll[k] = valid[k]; k++
       :: k < MACHINES && !(state[k] == WAITS || state[k] == HOLDS) -> k++
#else
       :: k < MACHINES -> k++
#endif
       :: else -> break
       od
     }
  od
}

init {
  atomic {
    k = 0;
    do
    :: k < MACHINES ->
       valid[k] = 1;
       takes[k] = TAKES + (k == 0 -> EXTRA : 0);
       state[k] = NONE;
       others[k] = UNKNOWN;
       phase[k] = IDLE;
       run Tasks(k);
       run Agent(k);
       run Store(k);
       run Fate(k);
       k++
    :: else -> break
    od;
    run Operator();
    run Clock()
  }
}
