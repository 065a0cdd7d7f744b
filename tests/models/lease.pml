/*
 * Leases of a limit of windows in Redis, as store/lease_table.cpp takes, spends and gives them back.
 *
 * Each proxy asks for a batch of units, serves requests from it, and gives back what is left. A request
 * for which it has no batch is charged by itself. A batch ends with the sub-bucket that it was charged
 * to: what the answer says is left of the sub-bucket, counted from the moment when the command was sent.
 * A command may be carried out late, or never; its answer may be lost, or come after the proxy has given
 * up. A proxy may crash, reset the counts or read its configuration anew; then it ends its batch, and
 * one whose command had left. A give-back may be late or lost. Redis may lose all counts (FLUSHALL), or
 * those of one command and no more (a failover). A unit may be spent before another limit of the request
 * decides: if that denies, the unit goes back to its batch, or, if that has ended, to its sub-bucket. What
 * is left of a batch may be kept: no request uses it, and it expires with its window, unless the proxy gives it
 * back later (a reload, a stop, more proxies). So may a whole batch that came after its end.
 *
 * Checked in every order of events: a unit is used in the sub-bucket that it was charged to; of what was
 * counted in one state no window ever admits more than the quota, and what a failover has lost; no
 * sub-bucket counts less than was admitted and is in batches. And at the end, without losses: what
 * counts is what was admitted.
 *
 * runs: -DQUOTA=3 -DBATCH=2 -DLOSSES=0 -DFLUSHES=0 -DFAILOVERS=0 -DENDS=1
 * runs: -DQUOTA=3 -DBATCH=2 -DLOSSES=2 -DFLUSHES=0 -DFAILOVERS=0 -DENDS=1
 * runs: -DQUOTA=3 -DBATCH=2 -DLOSSES=0 -DFLUSHES=1 -DFAILOVERS=0 -DENDS=1
 * runs: -DQUOTA=2 -DBATCH=2 -DLOSSES=1 -DFLUSHES=1 -DFAILOVERS=0 -DENDS=0
 * runs: -DQUOTA=3 -DBATCH=2 -DLOSSES=0 -DFLUSHES=0 -DFAILOVERS=1 -DENDS=0
 * runs: -DQUOTA=3 -DBATCH=2 -DLOSSES=0 -DFLUSHES=0 -DFAILOVERS=0 -DENDS=1 -DASKS=1
 * runs: -DQUOTA=3 -DBATCH=2 -DLOSSES=0 -DFLUSHES=1 -DFAILOVERS=0 -DENDS=0 -DASKS=1
 * runs: -DQUOTA=3 -DBATCH=2 -DLOSSES=1 -DFLUSHES=0 -DFAILOVERS=0 -DENDS=0 -DASKS=1 -DKEEPS=2
 * runs: -DQUOTA=3 -DBATCH=2 -DLOSSES=0 -DFLUSHES=1 -DFAILOVERS=0 -DENDS=0 -DKEEPS=2
 */
#ifndef ASKS
#define ASKS 0                  /* requests about other limits, too, which answer later */
#endif
#ifndef KEEPS
#define KEEPS 0                 /* batches whose rest is not given back */
#endif
#define PROXIES 2
#define WIDTH 2                 /* of a sub-bucket, in steps of the clock */
#define BUCKETS 3               /* that the clock reaches */
#define SPAN 2                  /* sub-buckets that count at once */
#define LATE 2                  /* give-backs under way, of each proxy */
#define CHARGES PROXIES
#define GIVEN (PROXIES * LATE)

mtype = { idle, sent, yes, no };

byte clock;
byte held[BUCKETS];             /* as Redis counts them */
byte admitted[BUCKETS];         /* of what is counted there: requests that passed */
byte generation;                /* of the state in Redis */
byte lost_units;                /* by failovers */

/* The command that asks for a batch, of each proxy. */
mtype charge[CHARGES];
byte sent_at[CHARGES];
byte charged_to[CHARGES];       /* the sub-bucket */
byte charged_in[CHARGES];       /* the generation */
byte life[CHARGES];             /* of the sub-bucket, when it was charged */
bool is_dropped[CHARGES];       /* the proxy wants no batch of it any more */

/* A command whose proxy has given up, or is gone. */
bool is_late[CHARGES];

/* The batch, of each proxy. */
byte left[PROXIES];
byte ends[PROXIES];
byte bucket[PROXIES];
byte taken_in[PROXIES];

/* A unit that was spent for a request about which other limits are asked, of each proxy. */
bool asks[PROXIES];
bool of_batch[PROXIES];         /* of the batch that is there; else that has ended */
byte asks_bucket[PROXIES];
byte asks_in[PROXIES];

/* What is kept of batches, and may be given back later. */
byte kept[PROXIES];
byte kept_to[PROXIES];
byte kept_in[PROXIES];

/* What is on its way back. */
byte back[GIVEN];
byte back_to[GIVEN];
byte back_in[GIVEN];

byte losses_left = LOSSES;
byte flushes_left = FLUSHES;
byte failovers_left = FAILOVERS;
byte ends_left = ENDS;          /* crashes, resets and reloads */
byte asks_left = ASKS;
byte keeps_left = KEEPS;
byte lost;

#define NOW (clock / WIDTH)
#define COUNTS(b) ((b) + SPAN > NOW && (b) <= NOW)
#define LEFT_OF_BUCKET ((NOW + 1) * WIDTH - clock)

#define COUNTED(counts, b) (COUNTS(b) -> counts[b] : 0)
#define WINDOW(counts) (COUNTED(counts, 0) + COUNTED(counts, 1) + COUNTED(counts, 2))

/* The script, in one step: `fits` if it takes the units. */
inline take(units) {
    fits = WINDOW(held) + units <= QUOTA;
    if
    :: fits -> held[NOW] = held[NOW] + units
    :: else
    fi
}

inline check() {
    assert(WINDOW(admitted) <= QUOTA + lost_units)
}

inline admit(b) {
    admitted[b]++;
    check()
}

inline send_back(p, units, to, in_state) {
    if
    :: back[p * LATE] == 0 -> s = p * LATE
    :: back[p * LATE] > 0 && back[p * LATE + 1] == 0 -> s = p * LATE + 1
    :: else -> s = GIVEN; lost++            /* the model has no room: it stays taken */
    fi;
    if
    :: s < GIVEN -> back[s] = units; back_to[s] = to; back_in[s] = in_state
    :: else
    fi;
    s = 0
}

inline end_batch(p) {
    left[p] = 0; ends[p] = 0; bucket[p] = 0; taken_in[p] = 0; of_batch[p] = false
}

/* What the model has no room to remember expires. */
inline keep(p) {
    keeps_left--;
    if
    :: kept[p] == 0 ->
        kept[p] = left[p]; kept_to[p] = bucket[p]; kept_in[p] = taken_in[p]
    :: else -> lost++
    fi;
    end_batch(p)
}

inline forget_kept(p) {
    kept[p] = 0; kept_to[p] = 0; kept_in[p] = 0
}

inline give_back(p) {
    if
    :: left[p] > 0 -> send_back(p, left[p], bucket[p], taken_in[p])
    :: else
    fi;
    end_batch(p)
}

inline forget_asks(p) {
    asks[p] = false; of_batch[p] = false; asks_bucket[p] = 0; asks_in[p] = 0
}

inline forget_charge(p) {
    charge[p] = idle; sent_at[p] = 0; charged_to[p] = 0; charged_in[p] = 0; life[p] = 0;
    is_dropped[p] = false
}

inline carry_out(p) {
    take(BATCH);
    if
    :: fits ->
        charged_to[p] = NOW; charged_in[p] = generation; life[p] = LEFT_OF_BUCKET;
        charge[p] = yes
    :: else -> charge[p] = no
    fi;
    fits = false
}

#define EVENTS(p) \
    /* It has no batch that holds: gives back what is left, and asks. */ \
    :: atomic { charge[p] == idle && !is_late[p] && (left[p] == 0 || clock >= ends[p]) -> \
        give_back(p); charge[p] = sent; sent_at[p] = clock } \
    :: atomic { charge[p] == sent -> carry_out(p) } \
    :: atomic { charge[p] == no -> forget_charge(p) } \
    :: atomic { charge[p] == yes -> \
        left[p] = BATCH; ends[p] = sent_at[p] + life[p]; \
        bucket[p] = charged_to[p]; taken_in[p] = charged_in[p]; \
        if \
        :: is_dropped[p] || clock >= ends[p] -> give_back(p) \
        :: !is_dropped[p] && clock >= ends[p] && keeps_left > 0 -> keep(p) \
        :: else \
        fi; \
        forget_charge(p) } \
    /* The answer is lost: the units stay taken. */ \
    :: atomic { charge[p] == yes && losses_left > 0 -> losses_left--; lost++; forget_charge(p) } \
    /* The proxy gives up before the command is carried out. */ \
    :: atomic { charge[p] == sent && losses_left > 0 -> \
        losses_left--; lost++; is_late[p] = true; forget_charge(p) } \
    :: atomic { is_late[p] -> is_late[p] = false; take(BATCH); fits = false } \
    :: atomic { is_late[p] -> is_late[p] = false } \
    :: atomic { left[p] > 0 && clock < ends[p] -> \
        assert(NOW == bucket[p]); \
        left[p]--; \
        if \
        :: taken_in[p] == generation -> admit(bucket[p]) \
        :: else \
        fi; \
        if \
        :: left[p] == 0 && !of_batch[p] -> end_batch(p) \
        :: else \
        fi } \
    :: atomic { asks_left > 0 && !asks[p] && left[p] > 0 && clock < ends[p] -> \
        asks_left--; \
        left[p]--; \
        asks[p] = true; of_batch[p] = true; \
        asks_bucket[p] = bucket[p]; asks_in[p] = taken_in[p] } \
    /* The other limits admit. */ \
    :: atomic { asks[p] -> \
        if \
        :: asks_in[p] == generation -> admit(asks_bucket[p]) \
        :: else \
        fi; \
        if \
        :: left[p] == 0 && of_batch[p] -> end_batch(p) \
        :: else \
        fi; \
        forget_asks(p) } \
    /* They deny. */ \
    :: atomic { asks[p] -> \
        if \
        :: of_batch[p] && clock < ends[p] -> left[p]++ \
        :: else -> send_back(p, 1, asks_bucket[p], asks_in[p]) \
        fi; \
        forget_asks(p) } \
    :: atomic { (left[p] > 0 || of_batch[p]) && clock >= ends[p] -> give_back(p) } \
    :: atomic { keeps_left > 0 && left[p] > 0 && clock >= ends[p] -> keep(p) } \
    :: atomic { kept[p] > 0 -> send_back(p, kept[p], kept_to[p], kept_in[p]); forget_kept(p) } \
    :: atomic { kept[p] > 0 -> lost++; forget_kept(p) } \
    /* One request by itself. */ \
    :: atomic { left[p] == 0 -> \
        take(1); \
        if \
        :: fits -> admit(NOW) \
        :: else \
        fi; \
        fits = false } \
    /* A reload, or it drains. */ \
    :: atomic { ends_left > 0 && (left[p] > 0 || charge[p] != idle) -> \
        ends_left--; \
        is_dropped[p] = charge[p] != idle; \
        give_back(p) } \
    /* It resets the counts. */ \
    :: atomic { ends_left > 0 && flushes_left > 0 && (left[p] > 0 || charge[p] != idle) -> \
        ends_left--; flushes_left--; \
        is_dropped[p] = charge[p] != idle; \
        give_back(p); \
        flush() } \
    /* It crashes. */ \
    :: atomic { ends_left > 0 && losses_left > 0 && (left[p] > 0 || charge[p] != idle) -> \
        ends_left--; losses_left--; lost++; \
        is_late[p] = is_late[p] || charge[p] == sent; \
        forget_charge(p); \
        end_batch(p); \
        forget_asks(p) } \
    /* A failover loses the command: what was answered was not kept. */ \
    :: atomic { failovers_left > 0 && left[p] > 0 && taken_in[p] == generation && \
            held[bucket[p]] >= BATCH -> \
        failovers_left--; lost++; \
        held[bucket[p]] = held[bucket[p]] - BATCH; \
        lost_units = lost_units + BATCH }

#define GIVE_BACK(s) \
    :: atomic { back[s] > 0 -> \
        if \
        :: back_in[s] == generation && COUNTS(back_to[s]) -> \
            if \
            :: back[s] > held[back_to[s]] -> assert(lost_units > 0); held[back_to[s]] = 0 \
            :: else -> held[back_to[s]] = held[back_to[s]] - back[s] \
            fi \
        :: else \
        fi; \
        back[s] = 0; back_to[s] = 0; back_in[s] = 0 } \
    :: atomic { back[s] > 0 && losses_left > 0 -> \
        losses_left--; lost++; back[s] = 0; back_to[s] = 0; back_in[s] = 0 }

inline flush() {
    generation++;
    for (b : 0 .. BUCKETS - 1) {
        held[b] = 0;
        admitted[b] = 0
    }
    b = 0
}

#define IN_BATCH(p, b) ((left[p] > 0 && bucket[p] == (b) && taken_in[p] == generation) -> left[p] : 0)
#define ASKED_OF(p, b) ((asks[p] && asks_bucket[p] == (b) && asks_in[p] == generation) -> 1 : 0)
#define KEPT_OF(p, b) ((kept[p] > 0 && kept_to[p] == (b) && kept_in[p] == generation) -> kept[p] : 0)
#define IS_SETTLED(p) (charge[p] == idle && !is_late[p] && left[p] == 0 && !asks[p] && kept[p] == 0)

active proctype world() {
    byte b, s;
    bool fits;
    charge[0] = idle; charge[1] = idle;
end:
    do
    EVENTS(0)
    EVENTS(1)
    GIVE_BACK(0)
    GIVE_BACK(1)
    GIVE_BACK(2)
    GIVE_BACK(3)
    :: atomic { clock + 1 < WIDTH * BUCKETS -> clock++; check() }
    :: atomic { flushes_left > 0 -> flushes_left--; flush() }
    /* What must hold between any two events. */
    :: atomic { true ->
        for (b : 0 .. BUCKETS - 1) {
            assert(!COUNTS(b) || lost_units > 0 ||
                   held[b] >= admitted[b] + IN_BATCH(0, b) + IN_BATCH(1, b) +
                       ASKED_OF(0, b) + ASKED_OF(1, b) + KEPT_OF(0, b) + KEPT_OF(1, b));
            assert(!COUNTS(b) || lost > 0 ||
                   !(IS_SETTLED(0) && IS_SETTLED(1) && back[0] + back[1] + back[2] + back[3] == 0) ||
                   held[b] == admitted[b])
        }
        b = 0 }
    od
}
