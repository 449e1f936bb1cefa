//! Small faults, planted one at a time in a copy of the core: the model must catch each. Each replaces
//! one text, which must be there exactly once.

/// A fault.
pub(crate) struct Fault {
    /// What is wrong then.
    pub(crate) what: &'static str,
    /// In which file, below `core/src/`.
    pub(crate) file: &'static str,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        what: "an RTU leaves the REP's deadline running",
        file: "conn/passive.rs",
        from: "        self.sleep(index);\n        self.set_owed(index, 0);\n        self.set_stage(index, Stage::Established, why);",
        to: "        self.set_owed(index, 0);\n        self.set_stage(index, Stage::Established, why);",
    },
    Fault {
        what: "a REP is taken from anywhere",
        file: "conn/active.rs",
        from: "if !self.may_touch(slot, path) {",
        to: "if false && !self.may_touch(slot, path) {",
    },
    Fault {
        what: "a repeated REQ is not known again",
        file: "conn/lookup.rs",
        from: "        if let Some(index) = repeats {",
        to: "        if let Some(index) = repeats.filter(|_| false) {",
    },
    Fault {
        what: "a rejected request keeps its place in the backlog",
        file: "id/connect.rs",
        from: "        self.ids.answered(index);\n        self.ids.unmark(index, pending::CONNECT_RESPONSE);",
        to: "        self.ids.unmark(index, pending::CONNECT_RESPONSE);",
    },
    Fault {
        what: "a backlog has one place too many",
        file: "id/listen.rs",
        from: "waiting < backlog",
        to: "waiting <= backlog",
    },
    Fault {
        what: "DISCONNECTED is told again for a repeated DREQ",
        file: "conn/close.rs",
        from: "                self.owe(index, owed::DREP, true);\n                self.counters.duplicate().into()",
        to: "                self.owe(index, owed::DREP, true);\n                self.accepted(index, Outcome::Disconnected(DisconnectCause::Peer))",
    },
    Fault {
        what: "timewait has no end",
        file: "conn/close.rs",
        from: "        self.wake_after(index, Span::of_code(code));",
        to: "        let _ = Span::of_code(code);",
    },
    Fault {
        what: "TIMEWAIT_EXIT is told when timewait begins",
        file: "conn/close.rs",
        from: "        let verdict = self.accepted(index, Outcome::Disconnected(cause));",
        to: "        let _ = cause;\n        let verdict = self.accepted(index, Outcome::TimewaitExit);",
    },
    Fault {
        what: "a port's owner is not counted out",
        file: "port/table.rs",
        from: "        left.owners[kind.on_address()] -= 1;",
        to: "        left.owners[kind.on_address()] -= 0;",
    },
    Fault {
        what: "a handle is good whatever its generation",
        file: "id/mod.rs",
        from: "self.table.get(id.index as usize, id.generation).map(|_| id.index as usize)",
        to: "Some(id.index as usize).filter(|&index| self.table.is_live(index))",
    },
    Fault {
        what: "an accepted connection is not found by its queue pair",
        file: "conn/passive.rs",
        from: "        self.enter_own_table(index);\n",
        to: "",
    },
    Fault {
        what: "nobody is told that an attempt has ended",
        file: "id/connect.rs",
        from: "        self.ids.mark(index, event);",
        to: "        let _ = event;",
    },
    Fault {
        what: "a destroyed identifier's events stay",
        file: "id/destroy.rs",
        from: "        self.unmark(index, !keep);",
        to: "        let _ = keep;",
    },
    Fault {
        what: "a connection that begins anew keeps its communication ID",
        file: "conn/close.rs",
        from: "        slot.renew();\n",
        to: "",
    },
    Fault {
        what: "what was sent is still owed",
        file: "conn/emit.rs",
        from: "        self.set_owed(index, self.slot(index).owes & !message);",
        to: "        let _ = message;",
    },
    Fault {
        what: "a repetition is later than the end of waiting",
        file: "conn/retry.rs",
        from: "        Tick::after(self.now, interval).min(wait.until)",
        to: "        Tick::after(self.now, interval)",
    },
    Fault {
        what: "a request may be left unanswered for ever",
        file: "conn/passive.rs",
        from: "        self.wake_after(index, self.waits.accept_deadline);\n",
        to: "",
    },
    Fault {
        what: "one deadline more than the budget is handled",
        file: "cm.rs",
        from: "        for _ in 0..budget {",
        to: "        for _ in 0..budget + 1 {",
    },
    Fault {
        what: "an RTU is not said again",
        file: "conn/active.rs",
        from: "                self.owe(index, owed::RTU, true);\n",
        to: "",
    },
    Fault {
        what: "a repeated REP ends the connection",
        file: "conn/active.rs",
        from: "                self.owe(index, owed::RTU, true);\n                self.counters.duplicate().into()",
        to: "                let disposition = self.counters.duplicate();\n                self.enter_timewait(index, \"\");\n                self.put_dreq(index, &[]);\n                let over = Outcome::Disconnected(crate::event::DisconnectCause::Peer);\n                Verdict { disposition, outcome: self.outcome(index, over) }",
    },
    Fault {
        what: "a DREQ is not repeated",
        file: "conn/retry.rs",
        from: "if self.try_again(index, wait, now, owed::DREQ) {",
        to: "if self.try_again(index, wait, now, 0) {",
    },
    Fault {
        what: "a SIDR_REP leaves the request's deadline running",
        file: "conn/sidr.rs",
        from: "        self.set_owed(index, 0);\n        self.sleep(index);\n",
        to: "        self.set_owed(index, 0);\n",
    },
    Fault {
        what: "a stale connection ends in silence",
        file: "conn/lookup.rs",
        from: "                self.put_dreq(index, &[]);\n                self.outcome(index, over)",
        to: "                self.put_dreq(index, &[]);\n                None",
    },
    Fault {
        what: "a removed device's connections keep their slots",
        file: "id/sweep.rs",
        from: "            self.ids.slot_mut(index).conn = Link::NONE;\n            self.conns.free(conn);",
        to: "            self.ids.slot_mut(index).conn = Link::NONE;",
    },
    Fault {
        what: "two listeners at the wildcard of a family: IPv4 goes to IPv6's",
        file: "id/listen.rs",
        from: ".filter(|&index| !self.slot(index).has(flag::AF_ONLY))",
        to: "",
    },
    Fault {
        what: "REUSEADDR counts for any port too",
        file: "port/rules.rs",
        from: "        if want.reuse && explicit {",
        to: "        if want.reuse {",
    },
    Fault {
        what: "an address that could not be resolved keeps its port",
        file: "id/resolve.rs",
        from: "        let _ = self.unbind(index);\n        Stage::Idle",
        to: "        Stage::Idle",
    },
    Fault {
        what: "states of the model differ in what is owed, and are taken for one",
        file: "conn/picture.rs",
        from: "[self.owes, self.flags,",
        to: "[self.flags,",
    },
];
