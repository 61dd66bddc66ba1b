"""Plain English for tests on real text, about 600 tokens: prose, numbers, a list, a quotation and some code."""

TEXT = """\
The lighthouse at the end of the harbor was built in 1874, and for most of its life it was kept by one family. The
first keeper, a retired sailor named Thomas Hale, climbed the hundred and twelve steps every evening to light the
lamp, and every morning to put it out. When his knees began to fail, his daughter Ruth took over the work, although
the county went on sending the wages to her father for another nine years. Nobody in the town thought this strange.
What mattered was that the light came on.

In the winter of 1901 a storm cut the telegraph line and tore the roof from the fish market. Ruth counted four ships
that night. Three of them found the channel; the fourth, a small schooner with a cargo of salt, ran onto the rocks
below the tower. She tied a rope around her waist, gave the other end to her brother, and walked into the water. All
six men came out alive. Asked about it later by a newspaper from the city, she said only: "The rope was good, and my
brother is heavy."

How does such a lamp work? A flame by itself sends its light in every direction, and most of it is lost to the sky
and the ground. The lens, which is made of many rings of glass, bends the rays until they leave as a narrow beam.
Because the lens turns once in thirty seconds, a ship sees a flash, then darkness, then a flash again. Every
lighthouse along the coast has a rhythm of its own, so a captain who counts the seconds knows which one he is
looking at. The rules are simple:

1. Count from the start of one flash to the start of the next.
2. Look up the number in the list of lights.
3. Compare the color, which is white, red or green.
4. If two lights agree, take the nearer one and sound the depth.

Today the lamp is switched on by a computer. The program that does it is short, and a student of the local school
wrote its first version:

def lamp(hour, sunset, sunrise):
    if hour >= sunset or hour < sunrise:
        return "on"
    return "off"

The tower is a museum now, open from April to October, and about 20,000 people visit it each year. Most of them
climb the stairs, look out over the gray water, and ask the same question: was it lonely? The guide, who is a
great-grandson of Ruth Hale, likes to answer that the keepers had the whole sea for company. Then he lets the
visitors turn the lens by hand, which needs no more strength than opening a door, since its two tons of glass float
in a ring of mercury.
"""
