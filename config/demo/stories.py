#!/usr/bin/env python3
"""Writes children's stories, and chats that ask for them, to train the demo model on.

A story is a plot of plots.txt filled from the lists of words.txt: a hero, a friend, a helper who is good
at just what the trouble needs, a thing, a place. Everything follows from the seed. The chats ask for
what the story has (its hero, thing, place), so a model trained on them learns to obey a request.
"""
import argparse
import functools
import json
import pathlib
import random
import re


HERE = pathlib.Path(__file__).parent


@functools.cache
def lists():
    """The lists of words.txt: name to lines."""
    found = {}
    for line in (HERE / "words.txt").read_text().splitlines():
        if line.startswith("== "):
            lines = found.setdefault(line[3:], [])
        elif line and not line.startswith("#"):
            lines.append(line)
    return found


def words(text):
    return [word.strip() for word in text.split(",")]


@functools.cache
def nouns(name):
    return words(" ".join(lists()[name]))


@functools.cache
def rows(name):
    return [line.split("; ") for line in lists()[name]]


@functools.cache
def people():
    """Kind of person to sex, "" if it may be either."""
    return {kind: sex for kind, _, sex in (person.partition(":") for person in nouns("people"))}


class Who:
    """One character: how to name it, and its pronouns."""

    def __init__(self, rng, kind, named, moods):
        sex = people().get(kind, "") or rng.choice("fm")
        self.kind, self.mood = kind, rng.choice(moods) if rng.random() < 0.7 else ""
        self.name = invented(rng) if rng.random() < 0.25 else rng.choice(nouns("hers" if sex == "f" else "hises"))
        self.name = self.name if named else None
        self.he, self.him, self.his = ("she", "her", "her") if sex == "f" else ("he", "him", "his")
        self.He, self.His = self.he.capitalize(), self.his.capitalize()
        self.the, self.a, self.call = "the " + kind, "a " + kind, self.name or kind.capitalize()
        noun = f"{self.mood} {kind}".strip()
        self.intro = f"a {noun}" + (rng.choice([" named ", " called "]) + self.name if named else "")

    def __str__(self):
        return self.name or self.the


class Thing(str):
    """A countable noun with an adjective."""

    def __new__(cls, rng, noun, looks):
        self = super().__new__(cls, noun)
        self.full = f"{rng.choice(looks)} {noun}" if rng.random() < 0.8 else noun
        self.a, self.a_full = f"a {noun}", f"a {self.full}"
        return self


class Place:
    def __init__(self, rng, name):
        self.name = name
        self.at, homes, spots = next(row[1:] for row in rows("places") if row[0] == name)
        self.home_only = rng.choice(homes.split("/"))
        self.p1, self.p2 = rng.sample(words(spots), 2)
        self.home = "the " + self.home_only


def invented(rng):
    """A name nobody has, so that the model learns to copy names and not only to recall them."""
    syllables = rng.choices(nouns("syllables"), k=rng.choice([2, 2, 3]))
    return ("".join(syllables) + rng.choice(words("n, x, l, m, s, bo, by, ny, , , ,"))).capitalize()


def rare(rng, name):
    """A noun that is in no story without a request: a rare one, or one that does not exist."""
    return rng.choice(nouns(name)) if rng.random() < 0.5 else invented(rng).lower()


def choose(rng, text):
    """Replaces every [a|b|c], innermost first, by one of its parts."""
    while "[" in text:
        text = re.sub(r"\[([^\[\]]*)\]", lambda m: rng.choice(m[1].split("|")).strip(), text)
    return text


def pick(rng, name):
    return choose(rng, rng.choice(lists()[name]))


def polish(text):
    """Articles before vowels, capitals at the start of sentences."""
    text = re.sub(r"\b([Aa]) (?=[aeiou](?!ni|ne ))", r"\1n ", text)
    return re.sub(r"(^|\n|[.!?] |\.\" |[!?]\" (?=the |an? ))([a-z])", lambda m: m[1] + m[2].upper(), text)


def load_plots():
    plots = []
    for part in (HERE / "plots.txt").read_text().split("\n== ")[1:]:
        name, lines = part.split("\n", 1)
        plot = {"name": name, "topic": [], "ask": [], "text": []}
        for line in lines.strip().split("\n"):
            key, _, value = line.partition(": ")
            if key in ("topic", "ask"):
                plot[key] += value.split(" / ") if key == "topic" else [value.split(" => ")]
            else:
                plot["text"].append(line)
        plots.append(plot | {"text": "\n".join(plot["text"])})
    return plots


def characters(rng, odd):
    """Hero, friend and helper, the place of the trouble and the rescue: the helper's skill fits the trouble."""
    kinds = nouns("animals") + list(people()) if rng.random() < 0.8 else nouns("favorites")
    helpers, spots, rescue = rng.choice(rows("skills"))
    hero, friend = rng.sample(list(dict.fromkeys(kinds)), 2)
    helper = rng.choice([k for k in words(helpers) if k not in (hero, friend)])
    hero = rare(rng, "rare_kinds") if odd and rng.random() < 0.6 else hero
    friend = rare(rng, "rare_kinds") if odd and rng.random() < 0.4 else friend
    c = {"h": Who(rng, hero, rng.random() < 0.85, nouns("moods")),
         "k": Who(rng, friend, rng.random() < 0.5, nouns("moods")),
         "g": Who(rng, helper, rng.random() < 0.25, nouns("helper_moods"))}
    while c["k"].name and c["k"].name == c["h"].name:
        c["k"].name = None
    return c | {"t": rng.choice(spots.split("/")), "rescue": choose(rng, rescue)}


def things(rng, odd):
    """The things of all plots, and the single words that some plots turn on."""
    thing = rng.choice(nouns("things") + nouns("foods")[:15])
    thing = rare(rng, "rare_things") if odd and rng.random() < 0.7 else thing
    c = {"o": Thing(rng, thing, nouns("looks")), "plant": Thing(rng, rng.choice(nouns("plants")), nouns("looks"))}
    c["f"], c["f2"] = (Thing(rng, food, nouns("tastes")) for food in rng.sample(nouns("foods"), 2))
    what, need, part, use = rng.choice(rows("makes"))
    c["m"] = Thing(rng, what, nouns("looks"))
    c["m"].need, c["m"].part, c["m"].use = need, part, use.replace("{m}", what)
    c["junk"], c["junk2"] = rng.sample(nouns("junk"), 2)
    one = {"fear": "fears", "skill": "abilities", "lure": "lures", "day": "days", "did": "deeds", "chore": "chores"}
    return c | {name: rng.choice(nouns(many)) for name, many in one.items()}


def cast(rng, odd):
    """Everything a plot may name. `odd`: with rare nouns."""
    c = {"odd": odd, "s": Place(rng, rng.choice(rows("places"))[0])} | characters(rng, odd) | things(rng, odd)
    c["baby"] = rng.choice([a for a in nouns("animals") if a not in (c["h"].kind, c["k"].kind, c["g"].kind)])
    c["meet"], c["guide"] = pick(rng, "meetings"), pick(rng, "guides")
    c |= {name[4:]: pick(rng, name) for name in lists() if name.startswith("end ")}
    openings = lists()["openings"]
    c["open"] = rng.choices(openings, [6, 6, 4] + [1] * (len(openings) - 3))[0].replace("{x}", "{h.intro}")
    return c


def fill(text, c):
    while "{" in text:
        text = text.format_map(c)
    return polish(text)


def story(rng, plots, odd=False):
    """(cast, plot, text)"""
    c, plot = cast(rng, odd), rng.choice(plots)
    text = fill(choose(rng, plot["text"]), c)
    return c, plot, text if rng.random() < 0.85 else text.replace("\n\n", " ")


def wanted(rng, c, plot):
    """What a request says of a story: always the hero, often the plot, sometimes name, place, thing or helper."""
    h, roll = c["h"], rng.random()
    telling = [topic for topic in plot["topic"] if "{o" in topic or "{k" in topic]
    who = f"a {h.kind}" if rng.random() < 0.75 or not h.mood else f"a {h.mood} {h.kind}"
    if h.name and rng.random() < 0.3:
        who += rng.choice([" named ", " called "]) + h.name
    about = " " + rng.choice(plot["topic"]) if roll < 0.65 else ""
    if c["odd"] and telling:
        about = " " + rng.choice(telling)
    elif (c["odd"] or 0.65 <= roll < 0.8) and ("{o}" in plot["text"] or "{o." in plot["text"]):
        about = " and {o.a}"
    elif 0.8 <= roll < 0.88:
        about = " and {g.a}"
    elif 0.88 <= roll < 0.94:
        about = " who lived {s.at}"
    elif rng.random() < 0.15:
        about += " {s.at}"
    if h.name and not c["odd"] and rng.random() < 0.05:
        who = h.name
    return who + about


def request(rng, name, c, plot):
    c = c | {"w": wanted(rng, c, plot), "please": rng.choice(["", ", please"])}
    c["p"] = rng.choice([".", ".", ".", "", "!"])
    text = re.sub(r"\b([Aa]) (?=[aeiou](?!ni|ne ))", r"\1n ", fill(pick(rng, name), c))
    return text.lower() if rng.random() < 0.06 else text


def questions(rng, c, plot):
    general = [["Who was the story about?", "The story was about {h.intro}."],
               ["Where did {h} live?", "{h} lived {s.at}."]]
    return [[fill(q, c), fill(a, c)] for q, a in rng.sample(general + plot["ask"], rng.choice([1, 1, 2, 3]))]


def smalltalk(rng):
    said, answer = rng.choice(rows("smalltalk"))
    c = {"n": rng.randrange(100), "n2": rng.randrange(100)}
    return [fill(rng.choice(said.split("/")), c), choose(rng, answer)]


def chat(rng, plots):
    """A list of [role, text]."""
    turns = [smalltalk(rng)] if rng.random() < 0.1 else []
    if not turns or rng.random() < 0.5:
        odd = rng.random() < 0.25
        c, plot, text = story(rng, plots, odd)
        turns.append([request(rng, "short_asks" if not odd and rng.random() < 0.12 else "asks", c, plot), text])
        if rng.random() < 0.35:
            turns += questions(rng, c, plot)
        if rng.random() < 0.1:
            c, plot, text = story(rng, plots)
            turns.append([request(rng, "again", c, plot), text])
        if rng.random() < 0.05:
            turns.append(smalltalk(rng))
    system = [["system", pick(rng, "systems")]] if rng.random() < 0.15 else []
    return system + [[role, text] for turn in turns for role, text in zip(("user", "assistant"), turn)]


def documents(seed):
    """Endless: a story is a str, a chat a list of [role, text]."""
    rng, plots = random.Random(seed), load_plots()
    while True:
        yield story(rng, plots)[2] if rng.random() < 0.35 else chat(rng, plots)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=3, help="how many documents (default 3)")
    parser.add_argument("--seed", type=int, default=1, help="same seed, same documents (default 1)")
    parser.add_argument("--json", action="store_true", help="one JSON value a line instead of plain text")
    args = parser.parse_args()
    for _, doc in zip(range(args.count), documents(args.seed)):
        if args.json:
            print(json.dumps(doc))
        else:
            print(doc if isinstance(doc, str) else "\n".join(f"<{role}> {text}" for role, text in doc), end="\n----\n")


if __name__ == "__main__":
    main()
