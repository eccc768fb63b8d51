#!/usr/bin/env python3
"""Writes children's stories, and chats that ask for them, to train the demo model on.

A story is a plot of plots.txt filled from the word lists below: a hero, a friend, a helper who is good
at just what the trouble needs, a thing, a place. Everything follows from the seed. The chats ask for
what the story has (its hero, thing, place), so a model trained on them learns to obey a request.
"""
import argparse
import json
import pathlib
import random
import re


def words(text):
    return [" ".join(w.split()) for w in text.split(",")]


ANIMALS = words("""fox, rabbit, bear, mouse, cat, dog, duck, frog, hedgehog, owl, squirrel, turtle, pig, goat, sheep, cow, horse,
    hen, goose, swan, otter, beaver, badger, mole, deer, wolf, lion, tiger, elephant, giraffe, zebra, monkey,
    panda, koala, kangaroo, penguin, seal, whale, dolphin, crab, snail, bee, ant, ladybug, butterfly, cricket,
    spider, bat, crow, robin, sparrow, parrot, peacock, rooster, donkey, pony, camel, llama, raccoon, skunk,
    hamster, puppy, kitten, chick, lamb, bunny, crocodile, hippo, lizard, snake, toad, fish, moose, dinosaur,
    octopus, worm, caterpillar, firefly, eagle, flamingo, pigeon, piglet, calf, cub, rat, ox""")
PEOPLE = {"girl": "f", "boy": "m", "king": "m", "queen": "f", "princess": "f", "prince": "m", "witch": "f",
          "wizard": "m", "knight": "m", "farmer": "", "baker": "", "sailor": "", "pirate": "", "robot": "", "dragon": "",
          "unicorn": "", "giant": "", "fairy": "f", "mermaid": "f", "troll": "", "elf": "", "snowman": "m", "monster": "",
          "ghost": "", "astronaut": "", "painter": "", "teacher": "", "doctor": "", "gardener": "", "alien": "",
          "fisherman": "m", "clown": "", "gnome": "m", "scarecrow": "m", "toy bear": "", "doll": "f", "cook": "",
          "child": "", "shepherd": "", "tailor": "", "miller": "", "train driver": "", "ninja": ""}
HERS = words("""Lily, Mia, Anna, Rosie, Daisy, Lucy, Molly, Bella, Ruby, Poppy, Nina, Emma, Sara, Lulu, Tilly, Hazel, Ivy,
    Maya, Zoe, Clara, Ella, Dot, Penny, Luna, Amy, Kate, Sue, Mimi, Olive, Pearl, Nora, Greta, Holly, Jane""")
HISES = words("""Tom, Tim, Max, Ben, Sam, Leo, Jack, Finn, Oliver, Charlie, Pip, Toby, Oscar, Bruno, Hugo, Felix, Gus, Milo,
    Otto, Rex, Jasper, Benny, Freddy, Barnaby, Theo, Noah, Bob, Dan, Henry, Fred, Spike, Ned, Billy, Paul""")
THINGS = words("""key, ball, hat, kite, book, drum, ring, bell, doll, cup, scarf, shoe, boot, mitten, coat, button, coin, spoon,
    map, lamp, lantern, umbrella, basket, bag, box, blanket, pillow, teddy bear, toy car, toy boat, toy train,
    flute, whistle, trumpet, violin, guitar, crown, necklace, bracelet, feather, shell, stone, pebble, marble,
    pearl, star, letter, pencil, crayon, paintbrush, picture, watch, clock, compass, telescope, mirror, comb,
    ribbon, balloon, rope, shovel, bucket, hammer, broom, wand, sword, shield, flag, ticket, card, puzzle,
    bike, scooter, sled, skate, wagon, boat, tooth, sock, glove, vase, plate, jar, bottle, candle, diamond,
    treasure map, magnet, ladder, chair, cookie, acorn, nut, bone, carrot, egg, flower, leaf, rocket, robot,
    camera, phone, radio, tent, jacket, sweater""")
FOODS = words("""cookie, apple, pie, sandwich, cake, muffin, bun, pear, peach, carrot, banana, pancake, waffle, melon, orange,
    plum, bowl of soup, piece of cheese, slice of bread, cupcake, honey cake, berry tart, pizza, donut,
    chocolate bar, bag of nuts, potato, lollipop, jar of honey, jar of jam""")
LOOKS = words("""red, blue, green, yellow, golden, silver, shiny, tiny, little, big, old, new, round, pretty, purple, pink,
    white, soft, wooden, special, bright, beautiful, striped, small, lovely, sparkling, orange""")
TASTES = words("big, sweet, warm, fresh, yummy, juicy, tasty, delicious, little, crunchy, huge, golden")
MOODS = words("""little, small, young, kind, happy, brave, shy, curious, clever, gentle, cheerful, tiny, funny, lazy, quiet,
    lonely, friendly, playful, busy, hungry, grumpy, silly, sleepy, big, proud, polite""")
HELPER_MOODS = words("old, wise, kind, friendly, clever, gentle, tall, quiet, cheerful, strong, big, small, funny")
# place: the phrase, the home there, and where one can look there
PLACES = {
    "forest": ("in the forest", "den/little house/tree house", "under the old oak tree, behind a big bush, next to "
               "the stream, among the ferns, near the mossy log, beside the berry bushes"),
    "meadow": ("in a green meadow", "burrow/cottage/little house", "in the tall grass, among the daisies, under the willow "
               "tree, beside the brook, near the wooden fence, behind the haystack"),
    "farm": ("on a farm", "barn/farmhouse/stable", "behind the barn, next to the well, in the corn field, near the "
             "hen house, under the apple tree, beside the tractor"),
    "village": ("in a small village", "house/cottage", "behind the bakery, near the church, in the market square, under "
                "the bridge, beside the well, next to the school"),
    "seaside": ("by the sea", "hut/little house/cave", "on the sandy beach, behind the rocks, near the lighthouse, beside "
                "the old boat, under the pier, among the shells"),
    "mountain": ("on a high mountain", "cave/cabin/hut", "near the waterfall, behind a big rock, under the pine trees, "
                 "on the narrow path, beside the lake, at the edge of the snow"),
    "garden": ("in a big garden", "nest/little house/shed", "under the rose bush, behind the shed, among the tulips, near "
               "the fountain, beside the pond, next to the garden gate"),
    "river": ("near a wide river", "hut/burrow/little house", "under the bridge, among the reeds, on the river bank, behind "
              "the water mill, near the stepping stones, beside an old canoe"),
    "town": ("in a busy town", "house/apartment", "in the park, behind the library, near the train station, next to the "
             "toy shop, under a bench, on the playground"),
    "castle": ("in an old castle", "tower/room", "in the great hall, behind the throne, near the drawbridge, on the castle "
               "wall, under the long table, in the royal garden"),
    "jungle": ("in the jungle", "nest/hut/tree house", "behind the vines, under a giant leaf, near the waterfall, among the "
               "banana trees, beside the muddy river, next to a fallen tree"),
    "island": ("on a small island", "hut/cave/little house", "under a palm tree, on the white beach, behind the dunes, near "
               "the lagoon, beside the old wreck, among the coconuts"),
    "desert": ("in the desert", "tent/burrow/cave", "behind a sand dune, near the oasis, under a palm tree, beside a tall "
               "cactus, next to the red rocks, on the dusty road"),
    "city": ("in a big city", "apartment/house", "in the park, behind the museum, on the corner of the street, near the "
             "fountain, next to the bus stop, under a tall tree"),
    "moon": ("on the moon", "dome/rocket/little house", "behind a crater, next to the rocket, under the silver hill, near "
             "the moon lake, on the dusty plain, beside a shiny rock"),
}
HIGH = "high up in a tree/on top of a tall roof/on a high branch/on a high ledge"
# what the trouble needs: who can do it, where the thing is, how it is done
SKILLS = [
    ("owl, crow, robin, sparrow, eagle, parrot, pigeon, bat", HIGH,
     "{g} [spread {g.his} wings and flew up|flapped {g.his} wings, up and up]. Soon {g.he} came back with the {o}."),
    ("squirrel, monkey, cat, koala, lizard, kitten", HIGH,
     "{g} climbed up, [quick as the wind|higher and higher|very carefully]. {g.He} took the {o} and brought it down."),
    ("giraffe, giant, camel", HIGH,
     "{g} was so tall that {g.he} could reach it [easily|without any trouble]. {g.He} took the {o} and gave it to {h}."),
    ("otter, duck, frog, turtle, fish, beaver, swan, seal, dolphin", "at the bottom of the pond/deep under the water/in the "
     "middle of the lake", "[Splash!|With a big splash,] {g} jumped into the water and swam down. A moment later, {g.he} came "
     "up with the {o}."),
    ("mole, rabbit, badger, dog, worm, bunny, puppy", "at the bottom of a deep hole/under a heap of earth/in a dark tunnel",
     "{g} began to dig. {g.He} dug and dug [until the earth flew everywhere|as fast as {g.he} could]. At last {g.he} "
     "pulled out the {o}."),
    ("bear, elephant, ox, horse, moose, hippo, dragon", "under a heavy log/behind a huge rock/under a fallen tree",
     "{g} was very strong. {g.He} pushed [with all {g.his} might|once, twice, three times], and it rolled away. There was "
     "the {o}!"),
    ("mouse, ant, hamster, snail, ladybug, spider, elf", "in a narrow crack/under the floor/inside a hollow log",
     "{g} was so small that {g.he} could [crawl|squeeze] inside. Soon {g.he} came out again and pulled the {o} behind {g.him}."),
    ("firefly, fairy, wizard, robot", "at the back of a dark cave/in a very dark corner/inside a dark hollow tree",
     "{g} [made a bright light|began to glow like a little lamp], and now {h} could see in the dark. {h.He} reached out and "
     "took the {o}."),
]
MAKES = [  # what, what one has, what is missing, what one does with it in the end
    ("cake", "flour, eggs and milk", "sugar", "ate the {m}"), ("kite", "paper, sticks and glue", "string", "flew the {m}"),
    ("boat", "wood, nails and a sail", "rope", "sailed the {m}"), ("pie", "apples and flour", "butter", "ate the {m}"),
    ("birdhouse", "wood and nails", "paint", "put up the {m}"), ("soup", "water, onions and beans", "salt", "ate the {m}"),
    ("tree house", "boards and nails", "rope", "played in the {m}"), ("sled", "boards and rope", "nails", "rode the {m}"),
    ("drum", "a pot and two sticks", "leather", "played the {m}"), ("scarf", "two needles", "wool", "shared the {m}"),
    ("snowman", "snow and two sticks", "coal", "danced around the {m}"), ("rocket", "metal and wire", "fuel", "flew in the {m}"),
    ("swing", "a board and two hooks", "rope", "played on the {m}"), ("lantern", "paper and glue", "wax", "lit the {m}"),
    ("quilt", "cloth and a needle", "thread", "sat under the {m}"), ("bridge", "stones and boards", "rope", "crossed the {m}"),
    ("robot", "metal and screws", "oil", "danced with the {m}"), ("pizza", "flour and tomatoes", "cheese", "ate the {m}")]
FEARS = words("""the dark, thunder, deep water, loud noises, high places, the wind, spiders, the forest, big dogs, the night,
    monsters, flying, swimming, ghosts, storms, new friends, school, the doctor, snakes, shadows, snow, fire""")
ABILITIES = words("""swim, fly, whistle, ride a bike, dance, sing, skate, juggle, read, climb, jump rope, paint, cook, play the
    flute, play the drum, play the piano, ski, surf, write, count, tie knots, do a somersault, skip, run fast,
    draw""")
DEEDS = words("""bought, built, saw, loved, painted, borrowed, won, carried, opened, drew, washed, fixed, had, made, cleaned,
    brought, got, caught, kept, pulled, wore, used, picked, invented, liked, took, ordered, collected,
    discovered, chose""")
# nouns for requests only, so that the model learns to take any noun from a request
RARE_KINDS = words("""platypus, walrus, ostrich, armadillo, sloth, hyena, gorilla, leopard, jaguar, falcon, pelican, toucan, weasel,
    ferret, porcupine, chipmunk, gecko, iguana, salamander, tortoise, lobster, shrimp, starfish, jellyfish,
    shark, salmon, moth, grasshopper, beetle, wasp, vampire, zombie, detective, programmer, nurse, policeman,
    firefighter, captain, musician, dancer, student, professor, scientist, carpenter, plumber, waiter,
    librarian, mailman, grandmother, grandfather, king crab, computer, car, train, tree, cloud, star, teapot,
    pumpkin, tractor, truck, dentist, lawyer, hunter, singer, magician, ogre, cyclops""")
RARE_THINGS = words("""submarine, computer, piano, sandcastle, helicopter, laptop, keyboard, table, window, wheel, tower, garden,
    spaceship, banana, cheese, lemon, sausage, newspaper, pumpkin, cannon, saddle, helmet, anchor, trophy,
    medal, statue, fountain, carpet, curtain, sofa, fridge, toaster, kettle, fork, knife, needle, button box,
    calendar, dictionary, microscope, battery, lightbulb, parachute, skateboard, trampoline, tambourine, harp,
    trombone, pyramid, tent pole, suitcase, backpack, wallet, ruler, eraser""")
PLANTS = words("sunflower, pumpkin, apple tree, rose, beanstalk, cherry tree, tulip, strawberry plant, oak tree, lemon tree")
LURES = words("""a blue butterfly, a trail of shiny stones, a golden bird, a red balloon, a strange song, a tiny light, a big
    green beetle, the smell of honey, a rolling ball, a white feather, a rainbow, a shooting star""")
JUNK = words("""an old leaf, a sleepy snail, some dust, an empty nest, a muddy puddle, a round stone, some sticks, an old
    shoe, a broken cup, a rusty nail, a spider web, a pile of leaves, a few feathers, a busy ant""")
DAYS = words("""one day, one sunny morning, one windy day, one cold winter day, one rainy afternoon, one evening, one spring
    morning, one summer day, one quiet afternoon, early one morning, one autumn day, one snowy day, one warm
    day, one foggy morning, on a bright Sunday, one fine day""")
CHORES = words("""clean the house, carry water, pick berries, wash the dishes, feed the chickens, sweep the floor, chop wood,
    water the flowers, find a lost shoe, paint the fence, fold the blankets, gather nuts, dig a hole""")
OPENINGS = [
    ("{h.intro}", "Once upon a time, there was {x} who lived {s.at}."), ("{h.intro}", "Once upon a time, there lived {x} {s.at}."),
    ("{h.intro}", "Once upon a time, {s.at}, there was {x}."), ("{h.intro}", "There once was {x} who lived in a {s.home_only} {s.at}."),
    ("{h.intro}", "Long ago, {x} lived {s.at}."), ("{h.intro}", "{x} lived {s.at} in a cozy {s.home_only}."),
    ("{h.intro}", "Far, far away, {s.at}, lived {x}."), ("{h.intro}", "This is the story of {x} who lived {s.at}."),
    ("{h.intro}", "In a little {s.home_only} {s.at} lived {x}."), ("{h.intro}", "There was once {x}. {h.his} home was a {s.home_only} {s.at}.")]
ENDINGS = {
    "end": "From that day on, {h} and {g} were [best friends|good friends]./And they all lived happily ever after./{h} went home with a "
           "[big smile|happy heart]./That night, {h} [slept very well|had sweet dreams]./{h} never forgot how {g} helped {h.him}./And that "
           "was the end of a very good day./{h} learned that [it is good to have friends|asking for help is a good thing|we can do "
           "more together].",
    "honest": "{h} learned that it is always best to be honest./That night, {h} slept well, because {h.his} heart was light./From that day "
              "on, {h} always told the truth, and everybody trusted {h.him}.",
    "sharing": "{h} learned that sharing makes everything better./From that day on, {h} always shared with {h.his} friends./{h} was happy, "
               "because a friend is better than a full plate.",
    "brave": "From that day on, {h} was brave, even when {h.he} was a little afraid./That night, {h} was so proud that {h.he} smiled in "
             "{h.his} sleep./{h} learned that a good friend makes everything less scary.",
    "listen": "{h} learned to listen to {h.his} mother./From that day on, {h} never went too far from home alone./That night, {h} was glad to "
              "sleep in {h.his} own warm bed.",
    "effort": "{h} learned that you must never give up./And from that day on, they practiced together every day./{h} was very proud, and "
              "{g} was proud too.",
    "together": "{h} and {k} [were friends forever|were never lonely again]./And everybody knew: where {h} is, {k} is not far away./It does "
                "not matter who you are, if you have a good heart.",
    "patient": "{h} learned that good things need time./From that day on, {h} was never in a hurry again./And every spring, {h} planted a new "
               "seed with {h.his} friends."}
MEETINGS = """just then, {g.intro} came by./{g.intro} heard {h} and came closer./then {h} met {g.intro}./after a while,
    {g.intro} came down the path./suddenly, {h} heard a soft voice. It was {g.intro}./{g.intro} was sitting
    nearby and saw everything."""
GUIDES = """they walked [past the tall trees|over the hill|along the stream], and {g} sang a song all the way./{g} went
    first, and {h} stayed close behind./they went over a bridge and through a field, and {g} knew every step
    of the way./{g} held a lamp, and they walked side by side under the stars."""
ASKS = """[Tell me|Please tell me|Can you tell me|Could you tell me|I want to hear|I would like to hear|Write me] [a
    story|a short story|a little story|a bedtime story|a nice story] about {w}{p}/[Tell me|Write|Please
    write|Make up|Give me|tell me|write] a [story|short story| tale] about {w}{p}/[A story|Story|story] about
    {w}{please}{p}/[Do you know|Can you write|can you tell me] a story about {w}?/Once upon a time there was
    {w}. What happened?/[Tell me|tell me] about {w}{p}/[Hello!|Hi!|Hi,|Hello.] [Tell|tell] me a story about
    {w}{p}"""
SHORT_ASKS = """[Tell me|tell me|Please tell me|Write|write|I want|Can you tell me] a [story|short story|bedtime story|nice
    story|fairy tale| story for children|funny story|happy story]{p}/Story{please}{p}/Tell me something{p}/I
    can not sleep. Tell me a story{p}/Write a story for my [son|daughter|child|friend]{p}/Once upon a
    time/Surprise me with a story{p}"""
AGAIN = "Tell me another story about {w}{p}/Now tell me a story about {w}{p}/Another one, about {w}{p}/Great! And now a story about {w}{p}"
SYSTEMS = """You are a storyteller for children./You are a helpful assistant./You tell short stories./You are Quire, a
    friendly storyteller./ Answer with a story./You are a kind teacher who tells stories./Be brief and
    friendly./You are a helpful, honest assistant."""
SMALLTALK = [
    ("Hello/Hi/Hello!/Hi there/Good morning/hey/Hi, how are you?/How are you?", "Hello! [I am fine.|It is nice to meet you.|How nice to see "
     "you.] [Shall I tell you a story?|I know many stories. What should the story be about?]"),
    ("Who are you?/What are you?/What is your name?/what can you do?/What can you do?/Are you a robot?", "I am a [small|little] storyteller. I "
     "can tell you a story about [animals|friends|a fox or a bear], if you ask me."),
    ("Thank you/Thanks!/Thank you very much/thank you, that was nice/I liked it/Great story!/That was a nice story", "[You are welcome!|I am "
     "glad that you liked it.] [Shall I tell you another one?|Ask me when you want another story.]"),
    ("Bye/Goodbye/Good night/See you/bye bye", "[Goodbye!|Good night, and sweet dreams!|See you soon!]"),
    ("What is {n} plus {n2}?/What is {n} times {n2}?/Write a program/What is the capital of France?/How is the weather today?/Explain "
     "gravity/Write a poem about the sea/Translate this to French/What time is it?/Who is the president?/Write an email/Help me with my "
     "homework/Give me a recipe/Tell me a joke/What is the meaning of life?/How do computers work?/Count to ten/Write some code in "
     "Python/What is love?/Why is the sky blue?/Can you help me?/Solve this problem/List three colors/Where is London?/test",
     "[I am sorry, I do not know that.|That is too hard for me.|I am only a little storyteller.] [But I can tell you a story.|I only know "
     "stories. Would you like to hear one?|Ask me for a story about an animal!]")]


class Who:
    """One character: how to name it, and its pronouns."""

    def __init__(self, rng, kind, named, moods):
        sex = PEOPLE.get(kind, "") or rng.choice("fm")
        self.kind, self.mood = kind, rng.choice(moods) if rng.random() < 0.7 else ""
        self.name = invented(rng) if rng.random() < 0.25 else rng.choice(HERS if sex == "f" else HISES)
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
        self.at, homes, spots = PLACES[name]
        self.home_only = rng.choice(homes.split("/"))
        self.p1, self.p2 = rng.sample(words(spots), 2)
        self.home = "the " + self.home_only


def invented(rng):
    """A name nobody has, so that the model learns to copy names and not only to recall them."""
    syllables = rng.choices(words("ba, be, bo, da, di, do, fa, fi, ga, gri, ka, ki, lo, lu, ma, mo, na, ni, pa, po, ra, ri, "
                                  "sa, so, ta, ti, tu, va, wi, za, zo, qui, bra, tri, plo, sna"), k=rng.choice([2, 2, 3]))
    return ("".join(syllables) + rng.choice(words("n, x, l, m, s, bo, by, ny, , , ,"))).capitalize()


def rare(rng, nouns):
    """A noun that is in no story without a request: a rare one, or one that does not exist."""
    return rng.choice(nouns) if rng.random() < 0.5 else invented(rng).lower()


def choose(rng, text):
    """Replaces every [a|b|c], innermost first, by one of its parts."""
    while "[" in text:
        text = re.sub(r"\[([^\[\]]*)\]", lambda m: rng.choice(m[1].split("|")).strip(), text)
    return text


def pick(rng, options):
    return choose(rng, rng.choice(re.sub(r"\s+", " ", options).split("/")).strip())


def polish(text):
    """Articles before vowels, capitals at the start of sentences."""
    text = re.sub(r"\b([Aa]) (?=[aeiou](?!ni|ne ))", r"\1n ", text)
    return re.sub(r"(^|\n|[.!?] |\.\" )([a-z])", lambda m: m[1] + m[2].upper(), text)


def load_plots():
    plots = []
    for part in (pathlib.Path(__file__).parent / "plots.txt").read_text().split("\n== ")[1:]:
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


def cast(rng, odd):
    """Everything a plot may name. The helper's skill fits the place of the trouble. `odd`: rare nouns."""
    kinds = ANIMALS + list(PEOPLE) if rng.random() < 0.8 else words("girl, boy, fox, rabbit, bear, mouse, cat, dog")
    helpers, spots, rescue = rng.choice(SKILLS)
    hero, friend = rng.sample(list(dict.fromkeys(kinds)), 2)
    helper = rng.choice([k for k in words(helpers) if k not in (hero, friend)])
    hero = rare(rng, RARE_KINDS) if odd and rng.random() < 0.6 else hero
    friend = rare(rng, RARE_KINDS) if odd and rng.random() < 0.4 else friend
    thing = rare(rng, RARE_THINGS) if odd and rng.random() < 0.7 else rng.choice(THINGS + FOODS[:15])
    c = {"odd": odd, "h": Who(rng, hero, rng.random() < 0.85, MOODS), "k": Who(rng, friend, rng.random() < 0.5, MOODS),
         "g": Who(rng, helper, rng.random() < 0.25, HELPER_MOODS), "o": Thing(rng, thing, LOOKS),
         "s": Place(rng, rng.choice(list(PLACES))), "t": rng.choice(spots.split("/")), "rescue": choose(rng, rescue)}
    while c["k"].name and c["k"].name == c["h"].name:
        c["k"].name = None
    c["f"], c["f2"] = (Thing(rng, f, TASTES) for f in rng.sample(FOODS, 2))
    what, c["need"], c["part"], c["use"] = rng.choice(MAKES)
    c["m"], c["plant"] = Thing(rng, what, LOOKS), Thing(rng, rng.choice(PLANTS), LOOKS)
    c["m"].need, c["m"].part, c["m"].use = c["need"], c["part"], c["use"].replace("{m}", what)
    c["junk"], c["junk2"] = rng.sample(JUNK, 2)
    c |= {"fear": rng.choice(FEARS), "skill": rng.choice(ABILITIES), "lure": rng.choice(LURES), "day": rng.choice(DAYS), "did": rng.choice(DEEDS),
          "chore": rng.choice(CHORES), "baby": rng.choice([a for a in ANIMALS if a not in (hero, friend, helper)])}
    c["meet"], c["guide"] = pick(rng, MEETINGS), pick(rng, GUIDES)
    c |= {name: pick(rng, text) for name, text in ENDINGS.items()}
    weights = [6, 6, 4] + [1] * (len(OPENINGS) - 3)
    intro, opening = rng.choices(OPENINGS, weights)[0]
    c["open"] = opening.replace("{x}", intro)
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


def request(rng, patterns, c, plot):
    c = c | {"w": wanted(rng, c, plot), "please": rng.choice(["", ", please"]), "p": rng.choice([".", ".", ".", "", "!"])}
    text = re.sub(r"\b([Aa]) (?=[aeiou](?!ni|ne ))", r"\1n ", fill(pick(rng, patterns), c))
    return text.lower() if rng.random() < 0.06 else text


def questions(rng, c, plot):
    general = [["Who was the story about?", "The story was about {h.intro}."], ["Where did {h} live?", "{h} lived {s.at}."]]
    return [[fill(q, c), fill(a, c)] for q, a in rng.sample(general + plot["ask"], rng.choice([1, 1, 2, 3]))]


def smalltalk(rng):
    said, answer = rng.choice(SMALLTALK)
    c = {"n": rng.randrange(100), "n2": rng.randrange(100)}
    return [fill(pick(rng, said), c), pick(rng, answer)]


def chat(rng, plots):
    """A list of [role, text]."""
    turns = [smalltalk(rng)] if rng.random() < 0.1 else []
    if not turns or rng.random() < 0.5:
        odd = rng.random() < 0.25
        c, plot, text = story(rng, plots, odd)
        turns.append([request(rng, SHORT_ASKS if not odd and rng.random() < 0.12 else ASKS, c, plot), text])
        if rng.random() < 0.35:
            turns += questions(rng, c, plot)
        if rng.random() < 0.1:
            c, plot, text = story(rng, plots)
            turns.append([request(rng, AGAIN, c, plot), text])
        if rng.random() < 0.05:
            turns.append(smalltalk(rng))
    system = [["system", pick(rng, SYSTEMS)]] if rng.random() < 0.15 else []
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
