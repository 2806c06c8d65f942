"""ResNet-18 on small pictures, in PyTorch."""

import torch
import torch.nn.functional as F
from made_data import pictures
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms


class Basic(nn.Module):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.skip = nn.Identity()
        if stride > 1:
            conv = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)
            self.skip = nn.Sequential(conv, nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.skip(x) + self.norm2(self.conv2(y)))


class ResNet18(nn.Module):
    def __init__(self, width=64, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        blocks = [Basic(width, width), Basic(width, width)]
        for _ in range(3):
            blocks += [Basic(width, 2 * width, stride=2), Basic(2 * width, 2 * width)]
            width *= 2
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.blocks(F.relu(self.norm(self.stem(x))))
        return self.head(x.mean((2, 3)))


class Augmented(Dataset):
    def __init__(self, x, y):
        self.x, self.y = torch.from_numpy(x).permute(0, 3, 1, 2), torch.from_numpy(y).long()
        crop = transforms.RandomCrop(x.shape[1], padding=2)
        self.transform = transforms.Compose([crop, transforms.RandomHorizontalFlip()])

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.transform(self.x[i]), self.y[i]


epochs = 4
x, y = pictures(512, seed=1)
loader = DataLoader(Augmented(x, y), batch_size=32, shuffle=True, drop_last=True)
model = ResNet18(width=8, classes=4)
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs * len(loader))
averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
for _ in range(epochs):
    for x, y in loader:
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        schedule.step()
        averaged.update_parameters(model)
averaged.eval()
x, y = pictures(200, seed=2)
with torch.no_grad():
    scores = averaged(torch.from_numpy(x).permute(0, 3, 1, 2))
result = (scores.argmax(1) == torch.from_numpy(y)).float().mean().item()
