/*
 * Reserve and give back over the slots of Redis Cluster, as store/cross_slot_charge.cpp does it.
 *
 * Each request asks every slot, which admits while it holds less than its quota: first the OWN slots
 * that count the client alone, and, when all of them have admitted it, those that it shares with others.
 * A question may be lost, carried out though its answer is lost, or carried out when no proxy waits any more; a
 * give-back may be lost. A slot without an answer has failed. A request is admitted if all slots
 * have said so; else each slot that has said so is given back, once. A window of a slot may end
 * meanwhile, and what it held with it.
 *
 * Checked in every order of events: no slot ever holds more than its quota; what is given back was
 * taken, in this window, and once; a request that goes on holds a unit of every slot; one that an own
 * slot has denied never asks a shared one, nor takes anything there. And at the end: what a
 * slot holds beyond what went on are units of questions or give-backs that were lost; without
 * losses it is nothing.
 *
 * runs: -DREQUESTS=3 -DSLOTS=2 -DOWN=1 -DLOSSES=0 -DWINDOWS=2
 * runs: -DREQUESTS=3 -DSLOTS=2 -DOWN=1 -DLOSSES=2 -DWINDOWS=1
 * runs: -DREQUESTS=2 -DSLOTS=3 -DOWN=1 -DLOSSES=1 -DWINDOWS=2
 * runs: -DREQUESTS=2 -DSLOTS=3 -DOWN=2 -DLOSSES=1 -DWINDOWS=2
 * runs: -DREQUESTS=3 -DSLOTS=2 -DLOSSES=0 -DWINDOWS=2
 * runs: -DREQUESTS=3 -DSLOTS=2 -DLOSSES=2 -DWINDOWS=1
 * runs: -DREQUESTS=2 -DSLOTS=3 -DLOSSES=1 -DWINDOWS=2
 * runs: -DREQUESTS=4 -DSLOTS=2 -DLOSSES=0 -DWINDOWS=1
 */
#ifndef OWN
#define OWN SLOTS
#endif
#define QUOTA_MAX 2
#define PAIRS (REQUESTS * SLOTS)
#define AT(r, s) ((r) * SLOTS + (s))

mtype = { unasked, asked, yes, no, failed };

byte quota[SLOTS];
byte held[SLOTS];           /* units, as the slot counts them */
byte window[SLOTS];         /* the state's generation */
mtype answer[PAIRS];        /* what the request knows */
bool late[PAIRS];           /* a question that may still be carried out */
bool taken[PAIRS];          /* what was done: a unit was taken, */
byte taken_in[PAIRS];       /* in this window, */
bool given_back[PAIRS];     /* and given back */
bool to_give_back[PAIRS];   /* on its way */
bool went_on[REQUESTS];
byte losses_left = LOSSES;
byte lost;
byte ended;

/* A script, in one step: true if it takes a unit. */
inline take(r, s) {
    if
    :: held[s] < quota[s] ->
        held[s]++;
        taken[AT(r, s)] = true;
        taken_in[AT(r, s)] = window[s]
    :: else
    fi;
    assert(held[s] <= quota[s])
}

/* Another script: only to the window that it came from. */
inline give_back(r, s) {
    assert(taken[AT(r, s)] && !given_back[AT(r, s)]);
    if
    :: taken_in[AT(r, s)] == window[s] ->
        assert(held[s] > 0);
        held[s]--;
        given_back[AT(r, s)] = true
    :: else
    fi
}

inline lose() {
    losses_left--;
    lost++
}

/* What may happen to the question of a request to a slot, and to what is given back there. */
#define EVENTS(r, s) \
    :: atomic { answer[AT(r, s)] == asked -> \
        take(r, s); \
        if \
        :: taken[AT(r, s)] -> answer[AT(r, s)] = yes \
        :: !taken[AT(r, s)] -> answer[AT(r, s)] = no \
        :: losses_left > 0 -> lose(); answer[AT(r, s)] = failed \
        fi } \
    :: atomic { answer[AT(r, s)] == asked && losses_left > 0 -> \
        lose(); answer[AT(r, s)] = failed; late[AT(r, s)] = true } \
    :: atomic { late[AT(r, s)] -> late[AT(r, s)] = false; take(r, s) } \
    :: atomic { late[AT(r, s)] -> late[AT(r, s)] = false } \
    :: atomic { to_give_back[AT(r, s)] -> \
        to_give_back[AT(r, s)] = false; \
        give_back(r, s) } \
    :: atomic { to_give_back[AT(r, s)] && losses_left > 0 -> \
        lose(); to_give_back[AT(r, s)] = false }

proctype slot(byte s) {
end:
    do
    EVENTS(0, s)
#if REQUESTS > 1
    EVENTS(1, s)
#endif
#if REQUESTS > 2
    EVENTS(2, s)
#endif
#if REQUESTS > 3
    EVENTS(3, s)
#endif
    :: atomic { window[s] + 1 < WINDOWS -> window[s]++; held[s] = 0 }
    od
}

#if SLOTS == 2
#define EACH(what, r) (what(r, 0) && what(r, 1))
#else
#define EACH(what, r) (what(r, 0) && what(r, 1) && what(r, 2))
#endif
#define KNOWN(r, s) (answer[AT(r, s)] != asked)
/* Of the own slots; a shared one counts as such where it was not asked. */
#define OWN_YES(r, s) ((s) >= OWN || answer[AT(r, s)] == yes)
#define SAID_YES(r, s) (answer[AT(r, s)] == yes)

proctype request(byte r) {
    byte s;
    EACH(KNOWN, r);
    atomic {
        if
        :: EACH(OWN_YES, r) ->
            for (s : OWN .. SLOTS - 1) {
                answer[AT(r, s)] = asked
            }
        :: else ->
            for (s : OWN .. SLOTS - 1) {
                assert(answer[AT(r, s)] == unasked && !taken[AT(r, s)])
            }
        fi;
        s = 0
    }
    EACH(KNOWN, r);
    atomic {
        if
        :: EACH(SAID_YES, r) ->
            went_on[r] = true;
            for (s : 0 .. SLOTS - 1) {
                assert(taken[AT(r, s)] && !given_back[AT(r, s)])
            }
        :: else ->
            for (s : 0 .. SLOTS - 1) {
                if
                :: SAID_YES(r, s) -> to_give_back[AT(r, s)] = true
                :: else
                fi
            }
        fi;
        s = 0;
        ended++
    }
}

/* Nothing is under way any more. */
inline settled(yes_it_is) {
    yes_it_is = ended == REQUESTS;
    for (i : 0 .. PAIRS - 1) {
        yes_it_is = yes_it_is && !late[i] && !to_give_back[i]
    }
}

init {
    byte i, r, s, units, on, beyond;
    bool over;
    atomic {
        for (s : 0 .. SLOTS - 1) {
            select (i : 1 .. QUOTA_MAX);
            quota[s] = i
        }
        for (r : 0 .. REQUESTS - 1) {
            for (s : 0 .. SLOTS - 1) {
                if
                :: s < OWN -> answer[AT(r, s)] = asked
                :: else -> answer[AT(r, s)] = unasked
                fi
            }
        }
        for (s : 0 .. SLOTS - 1) { run slot(s) }
        for (r : 0 .. REQUESTS - 1) { run request(r) }
    }
    ended == REQUESTS;
    atomic {
        settled(over);
        if
        :: !over
        :: else ->
            beyond = 0;
            for (s : 0 .. SLOTS - 1) {
                units = 0;
                on = 0;
                for (r : 0 .. REQUESTS - 1) {
                    if
                    :: taken[AT(r, s)] && !given_back[AT(r, s)] && taken_in[AT(r, s)] == window[s] ->
                        units++;
                        if
                        :: went_on[r] -> on++
                        :: else
                        fi
                    :: else
                    fi
                }
                assert(held[s] == units);
                assert(on <= quota[s]);
                beyond = beyond + held[s] - on
            }
            assert(beyond <= lost)
        fi
    }
}
