use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

const CAPACITY: usize = SEGMENT * SEGMENTS;

fn all(slab: &Slab) -> Vec<Seen> {
    let mut seen = Vec::new();
    slab.each(|_, request| seen.push(request));
    seen
}

#[test]
fn a_slot_shows_its_last_owner_only() {
    let slab = Slab::default();
    assert!(all(&slab).is_empty());
    let first = slab.insert("a long name that takes several words", 7, Wait::Input, 100);
    let [seen] = &all(&slab)[..] else { panic!() };
    assert_eq!(seen.request_id, "a long name that takes several words");
    assert_eq!((seen.stage, seen.wait, seen.queued_ns, seen.since_ns), (7, Wait::Input, 100, 100));
    slab.set(first.unwrap(), Wait::StreamSlot, None);
    assert_eq!((all(&slab)[0].wait, all(&slab)[0].since_ns), (Wait::StreamSlot, 100));
    slab.set(first.unwrap(), Wait::Ready, Some(150));
    assert_eq!((all(&slab)[0].wait, all(&slab)[0].since_ns), (Wait::Ready, 150));

    assert!(slab.mark_warned(0, &all(&slab)[0]));
    assert!(!slab.mark_warned(0, &all(&slab)[0]), "once");
    slab.remove(first);
    assert!(all(&slab).is_empty());
    assert_eq!(slab.insert("b", 1, Wait::Scheduling, 200), first, "used again");
    assert_eq!(all(&slab)[0].request_id, "b");
    assert!(slab.mark_warned(0, &all(&slab)[0]), "another request");
}

#[test]
fn an_id_is_cut_between_two_characters_and_escaped() {
    let slab = Slab::default();
    slab.insert(&"ä".repeat(200), 0, Wait::Input, 1);
    slab.insert(&format!("x{}", "ä".repeat(200)), 0, Wait::Input, 1);
    slab.insert("a\nb", 0, Wait::Input, 1);
    let ids: Vec<_> = all(&slab).into_iter().map(|seen| seen.request_id).collect();
    assert_eq!(ids, ["ä".repeat(64), format!("x{}", "ä".repeat(63)), "a\\u{a}b".to_owned()]);
}

#[test]
fn a_full_table_counts_on() {
    let slab = Slab::default();
    let slots: Vec<_> = (0..CAPACITY).map(|n| slab.insert("r", n as u32, Wait::Input, 1)).collect();
    assert!(slots.iter().all(Option::is_some));
    let beyond = slab.insert("r", 0, Wait::Input, 1);
    assert_eq!((beyond, slab.len()), (None, CAPACITY as u64 + 1));
    slab.remove(slots[5]);
    slab.remove(beyond);
    assert_eq!(slab.insert("r", 0, Wait::Input, 1), slots[5]);
    assert_eq!(slab.len(), CAPACITY as u64);
}

proptest! {
    /// Against a map, over any order of calls.
    #[test]
    fn it_is_a_map(calls in prop::collection::vec((0..4_u8, 0..8_usize, 1..1_000_u64), 0..200)) {
        let slab = Slab::default();
        let mut model: BTreeMap<u32, (String, Wait, u64, u64)> = BTreeMap::new();
        for (number, (call, which, ns)) in calls.into_iter().enumerate() {
            let existing = model.keys().copied().nth(which);
            match (call, existing) {
                (0 | 1, _) => {
                    let id = format!("r{number}");
                    let slot = slab.insert(&id, 3, Wait::Input, ns).unwrap();
                    prop_assert!(model.insert(slot, (id, Wait::Input, ns, ns)).is_none(), "slot in use");
                }
                (2, Some(slot)) => {
                    slab.set(slot, Wait::Ready, Some(ns));
                    let entry = model.get_mut(&slot).unwrap();
                    (entry.1, entry.3) = (Wait::Ready, ns);
                }
                (3, Some(slot)) => {
                    slab.remove(Some(slot));
                    model.remove(&slot);
                }
                _ => {}
            }
            let mut shown = BTreeMap::new();
            slab.each(|slot, seen| {
                shown.insert(slot, (seen.request_id, seen.wait, seen.queued_ns, seen.since_ns));
            });
            prop_assert_eq!(&shown, &model);
            prop_assert_eq!(slab.len(), model.len() as u64);
        }
    }
}

/// Owners come and go on several threads while another reads: what is shown is always one owner's.
#[test]
fn nothing_torn_is_ever_shown() {
    let slab = Slab::default();
    let is_over = AtomicBool::new(false);
    let shown = std::thread::scope(|scope| {
        let owners: Vec<_> = (0..3_u64)
            .map(|thread| {
                let slab = &slab;
                scope.spawn(move || {
                    for round in 0..20_000_u64 {
                        let number = 1 + thread * 1_000_000 + round;
                        // The id repeats the time, over several words.
                        let id = format!("{number:024}{number:024}");
                        let slot = slab.insert(&id, 1, Wait::Input, number);
                        slab.set(slot.unwrap(), Wait::Ready, Some(number));
                        slab.remove(slot);
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut shown = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                slab.each(|_, seen| {
                    let number = seen.queued_ns;
                    assert_eq!(seen.request_id, format!("{number:024}{number:024}"));
                    shown += 1;
                });
            }
            shown
        });
        for owner in owners {
            owner.join().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    assert!(all(&slab).is_empty() && slab.len() == 0);
    assert!(slab.used.load(Ordering::Relaxed) <= 3, "slots are used again");
    // How much was seen depends on the machine; that it was whole does not.
    let _ = shown;
}
