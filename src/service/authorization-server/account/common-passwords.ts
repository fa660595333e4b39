/** Words of which the passwords are made that people choose most, and those that no pattern explains; in lower case. */
export const COMMON_PASSWORDS: ReadonlySet<string> = new Set(
  `
  password passwort passw0rd passphrase contraseña contrasena motdepasse parola haslo senha heslo wachtwoord losenord salasana
  passord adgangskode sifre mypassword yourpassword newpassword nopassword thepassword secret topsecret mysecret changeme
  changeit change letmein openup opensesame sesame welcome welcome2 willkommen bienvenue hello hallo hola bonjour goodbye
  access login logon signin signup user username admin administrator adminadmin root toor guest default demo test tester
  testing temp temporary trial sample example master owner superuser supervisor manager service server system computer laptop
  internet network website google facebook twitter youtube instagram linkedin amazon apple microsoft windows linux ubuntu
  android iphone samsung nintendo playstation xbox minecraft roblox fortnite pokemon pikachu zelda warcraft starcraft
  halflife counter killer sniper gamer player winner loser champion legend
  iloveyou iloveyou1 iloveu loveyou lovelove lover lovers love lovely mylove truelove babygirl babyboy baby sweetheart
  sweetie sweety honey darling angel angels princess prince queen king princesa principe cutie beautiful pretty gorgeous
  handsome sexy sexygirl hottie teamo tequiero teamomucho amor amore jetaime liebe schatz schatzi
  monkey dragon tiger lion panther leopard cheetah jaguar puma cougar wolf wolves bear eagle falcon hawk phoenix raven shark
  dolphin dolphins turtle snake cobra viper spider scorpion butterfly kitty kitten hellokitty puppy doggie doggy horse horses
  pony unicorn chicken ducky donkey rabbit bunny penguin panda koala elephant bulldog rottweiler retriever
  sunshine sunflower flower flowers rainbow star stars starlight moonlight moon summer winter spring autumn fall january
  february march april june july august september october november december monday tuesday wednesday thursday friday saturday
  sunday christmas halloween easter birthday holiday weekend forever always
  football baseball basketball softball volleyball soccer hockey tennis golfer golfing running racing skater surfer surfing
  fishing hunter hunting skiing swimming boxing wrestling karate judo yankees redsox cowboys steelers packers raiders broncos
  eagles giants dodgers lakers celtics bulls rangers liverpool chelsea arsenal manchester barcelona realmadrid juventus
  milan inter bayern celtic everton tottenham
  batman superman spiderman ironman wolverine hulk avengers starwars darthvader skywalker yoda jedi startrek matrix
  gandalf frodo aragorn legolas hobbit tolkien harrypotter hogwarts potter dumbledore naruto sasuke goku gundam sailormoon
  simpsons homer snoopy garfield scooby scoobydoo mickey minnie disney nemo shrek barbie tinkerbell cinderella
  michael michelle jennifer jessica ashley amanda daniel daniela matthew andrew anthony christopher christian joshua joseph
  thomas robert richard charlie charles jordan nicole justin brandon samantha elizabeth victoria alexander alexandra alexis
  patrick maria mariana carlos alejandro fernando gabriel sebastian eduardo ricardo antonio francisco jasmine hannah
  heather maggie ginger pepper buster bailey rocky max sophie jackson tyler taylor austin dallas houston phoenix chicago
  london paris berlin moscow newyork california texas florida america england germany france canada mexico brasil
  brazil argentina colombia australia
  metallica slipknot nirvana beatles pinkfloyd ironmaiden linkinpark greenday blink182 eminem tupac madonna britney elvis
  mustang corvette camaro ferrari porsche mercedes bmw toyota honda yamaha suzuki kawasaki harley ducati chevy chevrolet ford
  jeep hummer subaru nissan mazda audi volkswagen
  chocolate cookie cookies cheese coffee banana orange cherry apple apples peaches strawberry vanilla sugar candy pizza
  hamburger bacon popcorn pumpkin
  jesus jesus1 jesuschrist christ church blessed faith heaven trustno1 trustme godisgood godislove believe freedom liberty
  peace whatever nothing something anything everything everyone nobody nothing1 mother father mommy daddy family sister
  brother friend friends bestfriend bestfriends
  killers metal rock rockstar rocknroll guitar music musica dancer dancing blacksmith silver golden diamond platinum
  crystal purple yellow green blue black white orange1 blink shadow ghost demon devil lucifer satan zombie vampire ninja
  samurai pirate warrior knight wizard merlin magic merlin1 mystic cyber hacker hackers hacked matrix1 neo trinity morpheus
  fuckyou fuckme fuckoff asshole bitch bullshit biteme pussy playboy
  qazwsx qazwsxedc wsxedc edcrfv zaqxsw zaq12wsx 1qaz 2wsx 3edc 4rfv 1q2w3e4r 1q2w3e4r5t 1q2w3e q1w2e3r4 q1w2e3 zaq1 xsw2 1a2b3c4d
  a1b2c3d4 a1b2c3 abc123 123abc 1qazxsw2 147258369 159357 741852963 789456123 192837465 1029384756 31415926 27182818
  11223344 121212 131313 112233 aabbccdd qweasd qweasdzxc asdzxc azerty qwertz
  correcthorsebatterystaple
  `
    .split(/\s+/)
    .filter((word) => word !== ''),
);
