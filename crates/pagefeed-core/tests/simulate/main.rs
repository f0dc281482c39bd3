//! The engine in a simulated world: a seed gives pages, plans, memory, threads, a consumer,
//! faults of the storage, and who runs when.
//!
//!     cargo test --package pagefeed-core --features simulate --test simulate -- --seed 7

#![allow(clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod arguments;
mod case;
mod consumer;
mod judging;
mod memory;
mod pages;
mod plans;
mod sharing;
mod storm;

use std::cell::Cell;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Instant;

use pagefeed_core::sync::simulated::{Policy, Random, Settings, Summary, Watch, run};

use arguments::Arguments;
use case::Case;
use consumer::Consumer;
use sharing::Sharing;
use storm::Storm;

/// One world in this number is of dictionaries alone that threads share.
const SHARING: u64 = 16;

/// One world in this number is a long run with a storm in the middle.
const STORM: u64 = 2048;

thread_local! {
    static SEED: Cell<u64> = const { Cell::new(0) };
}

/// Prints what is wrong, and ends.
fn fail(message: &str) -> ! {
    println!("seed {}: {message}", SEED.get());
    std::process::exit(1);
}

/// Lives through the world of a seed.
fn live(seed: u64, is_traced: bool) -> Summary {
    SEED.set(seed);
    let mut random = Random::new(seed);
    if seed % SHARING == SHARING - 1 {
        let sharing = Sharing::draw(&mut random);
        let settings = settings(&mut random, is_traced, None);
        return run(settings, move || sharing.live());
    }
    if seed % STORM == STORM / 2 {
        let storm = Storm::draw(&mut random);
        let settings = Settings {
            most_threads: 100,
            ..settings(&mut random, is_traced, None)
        };
        return run(settings, move || storm.live());
    }
    let consumer = Rc::new(Consumer::new(Case::draw(&mut random)));
    let watched = Rc::clone(&consumer);
    let every = random.of(&[1, 16, 16, 16]);
    let watch: Watch = (every, Box::new(move |all_wait| watched.watch(all_wait)));
    let settings = settings(&mut random, is_traced, Some(watch));
    run(settings, move || consumer.live())
}

/// The machine of a world.
fn settings(random: &mut Random, is_traced: bool, watch: Option<Watch>) -> Settings {
    Settings {
        seed: random.next(),
        policy: Policy::any(random),
        spurious: random.of(&[0, 0, 5, 50]),
        most_threads: random.of(&[1, 2, 100, 100, 100, 100, 100]) as usize,
        most_steps: 2_000_000,
        trace: is_traced
            .then_some(|time, thread, event| println!("{time:>12} {thread:12} {event}")),
        watch,
        fail,
    }
}

/// Whether the world of a seed leaks memory whenever it runs; what is made once stays.
fn is_lost(seed: u64) -> bool {
    let before = memory::bytes();
    live(seed, false);
    memory::bytes() != before
}

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    if !arguments.is_traced {
        std::panic::set_hook(Box::new(|_| {})); // What is wrong is printed once.
    }
    if let Some(seed) = arguments.seed {
        let summary = live(seed, arguments.is_traced);
        println!("seed {seed}: {} steps", summary.steps);
    }
    let begin = Instant::now();
    let (mut count, mut steps, mut said) = (0, 0, 0);
    for seed in arguments.seeds() {
        if arguments
            .seconds
            .is_some_and(|most| begin.elapsed() >= most)
        {
            break;
        }
        let before = memory::bytes();
        let summary = live(seed, false);
        if memory::bytes() != before && is_lost(seed) {
            fail("memory is not given back");
        }
        if seed.is_multiple_of(64) && live(seed, false) != summary {
            fail("the same seed gives another run");
        }
        count += 1;
        steps += summary.steps;
        if begin.elapsed().as_secs() / 60 > said {
            said = begin.elapsed().as_secs() / 60;
            println!("{count} seeds up to {seed}, {steps} steps, {said} minutes");
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!("{count} seeds, {steps} steps, {seconds:.1} s: nothing is wrong");
    ExitCode::SUCCESS
}
