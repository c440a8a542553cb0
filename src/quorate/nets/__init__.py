from quorate.nets.genotype import *
from quorate.nets.named import *
from quorate.nets.forms import *
from quorate.nets.cells import *
from quorate.nets.darts import *
